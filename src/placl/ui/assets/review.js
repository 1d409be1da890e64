// Review: every change is a new state of one instance, drawn at once, saved at once, and undone by saving the state before.
const told = JSON.parse(document.getElementById("data").textContent);
const SIDE = told.side, STATES = ["absent", "occluded", "visible"];
const reviewer = Math.random().toString(36).slice(2, 10);
const items = told.items.map((item) => ({...item, verdict: null, visibility: item.keypoints.map(() => 2), revision: 0}));
const place = new Map(items.map((item, n) => [item.id, n]));
let current = 0, chosen = 0, message = "", zoom = {x: 0, y: 0, side: SIDE}, drag = null;
const undone = [], waiting = [], pictures = new Map();
let saving = false, trouble = "";

const state = (item) => ({verdict: item.verdict, keypoints: item.keypoints.map((p) => [...p]), visibility: [...item.visibility]});
const toPicture = (item, [x, y]) => [(x - item.map[1]) / item.map[0], (y - item.map[2]) / item.map[0]];
const toImage = (item, [x, y]) => [item.map[0] * x + item.map[1], item.map[0] * y + item.map[2]];

function take(told) {
  const n = place.get(told.id);
  if (n === undefined || told.revision <= items[n].revision || waiting.some((one) => one.n === n)) return false;
  const theirs = told.reviewer !== reviewer && items[n].revision > 0;
  Object.assign(items[n], {verdict: told.verdict, keypoints: told.keypoints, visibility: told.visibility, revision: told.revision});
  if (theirs && n === current) message = "Another reviewer has changed this one.";
  return true;
}

// --- changes
function change(n, next, remember = true) {
  if (remember) undone.push({n, before: state(items[n])});
  Object.assign(items[n], next);
  message = "";
  waiting.push({n, ...state(items[n])});
  send();
}
function undo() {
  const last = undone.pop();
  if (!last) { message = "Nothing to undo."; draw(); return; }
  show(last.n);
  change(last.n, {...last.before, verdict: last.before.verdict || "open"}, false);
  draw();
}
function decide(verdict) {
  const item = items[current];
  if (verdict === "accepted" && !item.visibility.some((v) => v)) { message = "No keypoint is left: reject it instead."; draw(); return; }
  change(current, {verdict});
  const next = items.findIndex((one, n) => n > current && !isDecided(one));
  show(next >= 0 ? next : Math.min(current + 1, items.length - 1));
}
function setVisibility() {
  const visibility = [...items[current].visibility];
  visibility[chosen] = (visibility[chosen] + 2) % 3;
  change(current, {visibility, verdict: "open"});
  draw();
}
function nudge(x, y) {
  const item = items[current], keypoints = item.keypoints.map((p) => [...p]), step = zoom.side / SIDE;
  const [a, b] = toPicture(item, keypoints[chosen]);
  keypoints[chosen] = toImage(item, [a + x * step, b + y * step]);
  change(current, {keypoints, verdict: "open"});
  draw();
}
const isDecided = (item) => item.verdict === "accepted" || item.verdict === "rejected";

// --- saving: in order, one at a time, again until it is done
async function send() {
  if (saving) return;
  saving = true;
  while (waiting.length) {
    const one = waiting[0], item = items[one.n];
    status();
    try {
      const answer = await fetch("save", {method: "POST", body: JSON.stringify({
        id: item.id, verdict: one.verdict || "open", keypoints: one.keypoints, visibility: one.visibility, reviewer, seen: item.revision})});
      const kept = await answer.json();
      if (answer.ok) {
        item.revision = kept.revision;
        if (kept.replaced) message = "Another reviewer had saved this one meanwhile; yours has replaced it.";
      } else message = kept.error || "The server refused to save this.";
      trouble = "";
      waiting.shift();
    } catch (error) {
      trouble = "Not saved: the server does not answer. Trying again; leave this page open.";
      status();
      await new Promise((done) => setTimeout(done, 1500));
    }
  }
  saving = false;
  draw();
}
addEventListener("beforeunload", (event) => { if (waiting.length) event.preventDefault(); });
setInterval(async () => {
  if (waiting.length || drag) return;
  try {
    const answer = await fetch("verdicts.json", {cache: "no-store"});
    if (answer.ok && (await answer.json()).map(take).some(Boolean) && !drag) draw();
    if (trouble) { trouble = ""; status(); }
  } catch (error) { trouble = "The server does not answer."; status(); }
}, 2000);

// --- drawing
function show(n) {
  current = Math.max(0, Math.min(items.length - 1, n));
  message = "";
  zoom = {x: 0, y: 0, side: SIDE};
  draw();
}
function status() {
  const node = document.getElementById("saved");
  node.textContent = trouble || message || (waiting.length ? "saving" : "saved");
  node.className = trouble || message ? "trouble" : "";
}
function drawing(item) {
  const unit = zoom.side / SIDE, places = item.keypoints.map((point) => toPicture(item, point));
  const root = svg("svg", {id: "picture", viewBox: `${zoom.x} ${zoom.y} ${zoom.side} ${zoom.side}`, class: item.verdict || "", role: "img", "aria-label": item.id});
  if (!pictures.has(current)) {  // kept, or every movement would fetch it again
    const image = svg("image", {href: item.picture, width: SIDE, height: SIDE});
    image.addEventListener("error", () => { message = "This picture cannot be read."; status(); });
    pictures.set(current, image);
  }
  add(root, [pictures.get(current)]);
  for (const [a, b] of told.edges) if (item.visibility[a] && item.visibility[b])
    add(root, [svg("line", {x1: places[a][0], y1: places[a][1], x2: places[b][0], y2: places[b][1]})]);
  const order = places.map((_, k) => k).sort((a, b) => (a === chosen) - (b === chosen));
  for (const k of order) if (item.visibility[k])
    add(root, [svg("circle", {cx: places[k][0], cy: places[k][1], r: 8 * unit, "data-k": k,
      class: `${told.sides[k]} ${STATES[item.visibility[k]]}${k === chosen ? " chosen" : ""}`}, svg("title", {}, told.keypoints[k]))]);
  if (item.visibility[chosen])
    add(root, [svg("text", {x: places[chosen][0] + 12 * unit, y: places[chosen][1] - 10 * unit, "font-size": 15 * unit}, told.keypoints[chosen])]);
  return root;
}
function draw() {
  const item = items[current], count = (verdict) => items.filter((one) => one.verdict === verdict).length;
  const page = document.getElementById("page");
  if (!item) { page.replaceChildren(el("h1", {}, "Nothing to review"), el("p", {}, "The run has no unlabelled instances left.")); return; }
  const button = (id, text, key, action, pressed) => el("button", {id, type: "button", onclick: action, "aria-pressed": String(Boolean(pressed))}, text, el("kbd", {}, key));
  const focus = document.activeElement && document.activeElement.id;
  page.replaceChildren(
    el("header", {}, el("h1", {}, told.run), el("span", {id: "count"}, `${count("accepted")} accepted, ${count("rejected")} rejected, ${items.length - count("accepted") - count("rejected")} to go`), el("span", {id: "saved", role: "status"})),
    el("div", {id: "board"},
      el("div", {}, drawing(item), el("div", {id: "name"}, `${current + 1} of ${items.length}: ${item.id}`)),
      el("div", {},
        el("div", {id: "verdicts"},
          button("accept", "Accept", "A", () => decide("accepted"), item.verdict === "accepted"),
          button("reject", "Reject", "R", () => decide("rejected"), item.verdict === "rejected"),
          button("undo", "Undo", "U", undo), button("visibility", "Visible?", "V", setVisibility),
          button("previous", "Back", "←", () => show(current - 1)), button("next", "Next", "→", () => show(current + 1))),
        el("ul", {id: "points"}, told.keypoints.map((name, k) => el("li", {}, el("button", {type: "button", "aria-pressed": String(k === chosen), onclick: () => { chosen = k; draw(); }},
          el("b", {class: STATES[item.visibility[k]]}, name), el("span", {}, STATES[item.visibility[k]]), el("span", {class: "sure"}, item.confidence[k].toFixed(2)))))))),
    el("nav", {id: "queue", "aria-label": "instances"}, items.map((one, n) => el("button", {type: "button", class: one.verdict || "", title: one.id, "aria-current": n === current ? "true" : null, onclick: () => show(n)}, String(n + 1)))),
    el("footer", {}, el("p", {}, "Drag a keypoint, or choose one (Tab) and move it with Shift and the arrows. The wheel zooms, a double click shows all again. Everything is saved at once, to "), el("code", {}, told.file)));
  status();
  if (focus) document.getElementById(focus)?.focus();
}

// --- pointer and keys
function at(event) {
  const root = document.getElementById("picture"), box = root.getBoundingClientRect(), side = Math.min(box.width, box.height);
  const left = box.left + (box.width - side) / 2, top = box.top + (box.height - side) / 2;
  return [zoom.x + (event.clientX - left) / side * zoom.side, zoom.y + (event.clientY - top) / side * zoom.side];
}
document.addEventListener("pointerdown", (event) => {
  if (!event.target.closest?.("#picture") || event.button !== 0) return;
  const k = event.target.dataset?.k;
  event.preventDefault();
  if (k === undefined) { drag = {pan: at(event)}; return; }
  chosen = Number(k);
  drag = {k: chosen, before: state(items[current]), moved: false};
  draw();
});
document.addEventListener("pointermove", (event) => {
  if (!drag) return;
  const point = at(event);
  if (drag.pan) { zoom = inside({...zoom, x: zoom.x + drag.pan[0] - point[0], y: zoom.y + drag.pan[1] - point[1]}); draw(); return; }
  drag.moved = true;
  items[current].keypoints[drag.k] = toImage(items[current], point);
  draw();
});
addEventListener("pointerup", () => finish(true));
addEventListener("pointercancel", () => finish(false));
function finish(keep) {
  const done = drag;
  drag = null;
  if (!done || done.pan || !done.moved) return;
  const next = {keypoints: items[current].keypoints, verdict: "open"};
  Object.assign(items[current], done.before);
  if (keep) change(current, next);
  draw();
}
const inside = ({x, y, side}) => ({side, x: Math.max(0, Math.min(SIDE - side, x)), y: Math.max(0, Math.min(SIDE - side, y))});
document.addEventListener("wheel", (event) => {
  if (!event.target.closest?.("#picture")) return;
  event.preventDefault();
  const point = at(event), side = Math.max(SIDE / 16, Math.min(SIDE, zoom.side * (event.deltaY < 0 ? 0.8 : 1.25))), share = side / zoom.side;
  zoom = inside({side, x: point[0] - (point[0] - zoom.x) * share, y: point[1] - (point[1] - zoom.y) * share});
  draw();
}, {passive: false});
document.addEventListener("dblclick", (event) => { if (event.target.closest?.("#picture")) { zoom = {x: 0, y: 0, side: SIDE}; draw(); } });
document.addEventListener("keydown", (event) => {
  if (event.altKey || drag) return;
  const arrows = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}, arrow = arrows[event.key];
  const key = event.key.toLowerCase();
  if (event.ctrlKey || event.metaKey) { if (key !== "z") return; undo(); }
  else if (arrow && event.shiftKey) nudge(...arrow);
  else if (event.key === "ArrowLeft" || event.key === "ArrowRight") show(current + arrow[0]);
  else if (event.key === "Tab" && !event.target.closest?.("button")) { chosen = (chosen + (event.shiftKey ? -1 : 1) + told.keypoints.length) % told.keypoints.length; draw(); }
  else if (key === "a") decide("accepted");
  else if (key === "r") decide("rejected");
  else if (key === "u") undo();
  else if (key === "v") setVisibility();
  else return;
  event.preventDefault();
});
told.verdicts.forEach(take);
show(Math.max(0, items.findIndex((item) => !isDecided(item))));

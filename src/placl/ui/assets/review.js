// The picture, its keypoints, and what one does with them. Elements are made once and then only changed.
const SIDE = told.side, REACH = 26, STATES = ["not in the picture", "occluded", "visible"];
const side = sides(told), pictures = new Map(), byId = (id) => document.getElementById(id);
let current = 0, chosen = 0, hovered = null, drag = null, zoom = {x: 0, y: 0, side: SIDE};

const item = () => items[current];
const isBusy = () => drag !== null;
const toPicture = ([scale, x, y], point) => [(point[0] - x) / scale, (point[1] - y) / scale];
const toImage = ([scale, x, y], place) => [scale * place[0] + x, scale * place[1] + y];
// Nobody sees what lies outside of the picture, and nothing lies outside of the image.
function within({map, size}, place) {
  const low = toImage(map, [0, 0]), high = toImage(map, [SIDE, SIDE]);
  return toImage(map, place).map((value, i) => Math.max(low[i], 0, Math.min(high[i], size ? size[i] - 1 : high[i], value)));
}
const unit = () => zoom.side / byId("picture").getBoundingClientRect().width;  // of the picture, per pixel of the screen

// --- what the page is made of
function button(id, text, key, does, title) {
  return el("button", {id, type: "button", title, onclick: does}, text, key && el("kbd", {}, key));
}
function build() {
  const keys = [["A", "accept"], ["R", "reject"], ["U", "undo"], ["← →", "other instances"], ["↑ ↓", "choose a keypoint"],
    ["Shift + arrows", "move it"], ["V", "visible or occluded"], ["X", "not in the picture"], ["+ −", "zoom"]];
  const tools = [
    button("accept", "Accept", "A", () => decide("accepted"), "These keypoints are right: a label for the next training"),
    button("reject", "Reject", "R", () => decide("rejected"), "Of no use: takes no part in the next training"),
    button("undo", "Undo", "U", takeBack), button("occlude", "Occluded", "V", () => turn(1)),
    button("remove", "Not there", "X", () => turn(0))];
  const points = told.keypoints.map((name, k) => el("li", {}, el("button", {type: "button", onclick: () => choose(k)},
    dyed(el("i", {class: side[k]}), told, k), el("b", {}, name), el("span", {class: "state"}), el("span", {class: "sure", title: "confidence of the network"}))));
  const queue = items.map((one, n) => el("button", {type: "button", title: one.id, onclick: () => show(n)}, String(n + 1)));
  byId("page").replaceChildren(
    el("header", {}, el("h1", {}, told.run), el("span", {id: "count"}), el("progress", {id: "done", max: items.length}), el("span", {id: "saved", role: "status"})),
    el("div", {id: "board"},
      el("div", {id: "stage"}, svg("svg", {id: "picture", role: "img"}), el("p", {id: "broken", hidden: true}),
        el("div", {id: "zooming"}, button("closer", "+", "", () => zoomBy(0.7), "Closer"), button("farther", "−", "", () => zoomBy(1 / 0.7), "Farther")),
        el("div", {id: "name"}, button("previous", "‹", "", () => show(current - 1), "Back"), el("span", {id: "which"}), button("next", "›", "", () => show(current + 1), "Next"))),
      el("div", {id: "panel"}, el("div", {id: "tools"}, tools),
        el("p", {id: "heads"}, el("span", {}, "keypoint"), el("span", {}, "confidence")), el("ul", {id: "points"}, points),
        el("div", {id: "keys"}, keys.map(([key, text]) => el("span", {}, el("kbd", {}, key), text))))),
    el("nav", {id: "queue", "aria-label": "instances"}, queue),
    el("footer", {}, el("p", {}, "Drag keypoints to where they belong, then accept. Every change is saved at once, to ", el("code", {}, told.file))));
}

// --- drawing
function draw() {
  if (!items.length) return;
  drawPicture();
  const {id, verdict, visibility, confidence, broken, image} = item();
  const accepted = count("accepted"), rejected = count("rejected"), left = items.length - accepted - rejected;
  byId("count").textContent = `${accepted} accepted, ${rejected} rejected, ${left} to go`;
  byId("done").value = accepted + rejected;
  byId("saved").textContent = trouble || news || (unsaved.size ? "saving" : left ? "all saved" : "all saved, nothing left to decide");
  byId("saved").className = trouble || news ? "trouble" : "";
  byId("which").textContent = `${current + 1} of ${items.length} · ${verdict === "open" ? "not decided" : verdict || "new"} · ${id}`;
  byId("stage").className = verdict || "";
  byId("broken").hidden = !broken;
  byId("broken").textContent = broken ? `This picture cannot be read: ${image}` : "";
  byId("accept").setAttribute("aria-pressed", verdict === "accepted");
  byId("reject").setAttribute("aria-pressed", verdict === "rejected");
  byId("occlude").setAttribute("aria-pressed", visibility[chosen] === 1);
  byId("remove").setAttribute("aria-pressed", visibility[chosen] === 0);
  byId("undo").disabled = !past.length;
  [...byId("points").children].forEach(({firstChild: row}, k) => {
    row.setAttribute("aria-pressed", k === chosen);
    row.className = visibility[k] ? "" : "absent";
    row.querySelector(".state").textContent = visibility[k] === 2 ? "" : STATES[visibility[k]];
    row.querySelector(".sure").textContent = confidence[k].toFixed(2);
  });
  [...byId("queue").children].forEach((mark, n) => {
    mark.className = items[n].verdict || "";
    n === current ? mark.setAttribute("aria-current", "true") : mark.removeAttribute("aria-current");
  });
}
function drawPicture() {
  const {map, keypoints, visibility} = item(), px = unit(), places = keypoints.map((point) => toPicture(map, point));
  const root = byId("picture"), named = hovered ?? chosen, parts = [pictureOf(current)];
  root.setAttribute("viewBox", `${zoom.x} ${zoom.y} ${zoom.side} ${zoom.side}`);
  root.setAttribute("aria-label", item().id);
  const shade = (name, shape) => svg(name, {...shape, class: "shade"});  // so that white shows on white
  for (const [a, b] of told.edges) if (visibility[a] && visibility[b]) {
    const bone = {x1: places[a][0], y1: places[a][1], x2: places[b][0], y2: places[b][1]};
    parts.push(shade("line", bone), svg("line", bone));
  }
  const order = places.map((_, k) => k).filter((k) => visibility[k]).sort((a, b) => (a === chosen) - (b === chosen));
  for (const k of order) {
    const ring = {cx: places[k][0], cy: places[k][1], r: (k === chosen ? 9 : 7) * px};
    const looks = `${side[k]}${visibility[k] === 1 ? " occluded" : ""}${k === chosen ? " chosen" : ""}`;
    parts.push(shade("circle", ring), dyed(svg("circle", {...ring, "data-k": k, class: looks}), told, k));
  }
  if (visibility[named]) {
    const [x, y] = places[named], end = x > zoom.x + 0.65 * zoom.side;
    parts.push(svg("text", {x: x + (end ? -14 : 14) * px, y: y - 10 * px, "font-size": 16 * px, "text-anchor": end ? "end" : "start"}, told.keypoints[named]));
  }
  root.replaceChildren(...parts);
}
function pictureOf(n) {  // kept, or every movement would fetch it again
  if (!pictures.has(n)) {
    const image = svg("image", {href: items[n].picture, width: SIDE, height: SIDE});
    image.addEventListener("error", () => { items[n].broken = true; draw(); });
    pictures.set(n, image);
  }
  return pictures.get(n);
}

// --- doing
function show(n) {
  current = Math.max(0, Math.min(items.length - 1, n));
  hovered = null;
  news = "";
  zoom = {x: 0, y: 0, side: SIDE};
  draw();
}
function choose(k) {
  chosen = (k + told.keypoints.length) % told.keypoints.length;
  hovered = null;  // the name is that of what keys act on, until the pointer moves
  draw();
}
function decide(verdict) {
  if (verdict === "accepted" && !item().visibility.some(Boolean)) { news = "No keypoint is left: reject it instead."; draw(); return; }
  change(current, {verdict});
  const next = items.findIndex((one, n) => n > current && !isDecided(one));
  show(next < 0 ? current : next);
}
function takeBack() {
  const undone = undo();
  if (undone) show(undone.n);
}
function turn(to) {  // 0: not in the picture, 1: occluded; a second time: visible
  const visibility = [...item().visibility];
  visibility[chosen] = visibility[chosen] === to ? 2 : to;
  change(current, {visibility, verdict: afterMove(item())});
  draw();
}
function nudge([x, y]) {
  const keypoints = copied(item().keypoints), place = toPicture(item().map, keypoints[chosen]), px = unit();
  keypoints[chosen] = within(item(), [place[0] + x * px, place[1] + y * px]);
  change(current, {keypoints, verdict: afterMove(item())}, `nudge ${current} ${chosen}`);
  draw();
}
function zoomBy(factor, [x, y] = toPicture(item().map, item().keypoints[chosen])) {
  const length = Math.max(SIDE / 16, Math.min(SIDE, zoom.side * factor)), share = length / zoom.side;
  moveView(x - (x - zoom.x) * share, y - (y - zoom.y) * share, length);
}
function moveView(x, y, length = zoom.side) {
  const inside = (value) => Math.max(0, Math.min(SIDE - length, value));
  zoom = {x: inside(x), y: inside(y), side: length};
  drawPicture();
}

// --- pointer
function at(event) {
  const box = byId("picture").getBoundingClientRect();
  return [zoom.x + (event.clientX - box.left) / box.width * zoom.side, zoom.y + (event.clientY - box.top) / box.height * zoom.side];
}
function nearest([x, y]) {  // within reach; of two as near, the chosen one
  const far = ({map, keypoints}, k) => Math.hypot(...toPicture(map, keypoints[k]).map((v, i) => v - [x, y][i])) / unit() - (k === chosen ? 6 : 0);
  const near = told.keypoints.map((_, k) => [far(item(), k), k]).filter(([d, k]) => d < REACH && item().visibility[k]);
  return near.length ? near.sort((a, b) => a[0] - b[0])[0][1] : null;
}
function press(event) {
  if (event.button !== 0 || drag) return;
  event.preventDefault();
  byId("picture").setPointerCapture(event.pointerId);
  const point = at(event), k = nearest(point);
  if (k === null) { drag = {from: point}; return; }
  choose(k);
  const place = toPicture(item().map, item().keypoints[k]);
  drag = {k, before: stateOf(item()), grip: [place[0] - point[0], place[1] - point[1]], x: event.clientX, y: event.clientY, moved: false};
}
function move(event) {
  const point = at(event);
  if (!drag) {
    const k = nearest(point);
    if (k !== hovered) { hovered = k; drawPicture(); }
  } else if (drag.from) {
    moveView(zoom.x + drag.from[0] - point[0], zoom.y + drag.from[1] - point[1]);
  } else if (drag.moved || Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > 2) {  // else it is a click
    drag.moved = true;
    item().keypoints[drag.k] = within(item(), [point[0] + drag.grip[0], point[1] + drag.grip[1]]);
    drawPicture();
  }
}
function finish(keep) {
  const done = drag;
  drag = null;
  if (!done?.moved) return;
  const keypoints = item().keypoints;
  Object.assign(item(), done.before);
  if (keep) change(current, {keypoints, verdict: afterMove(item())});
  draw();
}
function listen() {
  const root = byId("picture"), shown = new ResizeObserver(draw);
  shown.observe(root);
  root.addEventListener("pointerdown", press);
  root.addEventListener("pointermove", move);
  root.addEventListener("pointerleave", () => { if (!drag) { hovered = null; drawPicture(); } });
  root.addEventListener("pointerup", () => finish(true));
  root.addEventListener("pointercancel", () => finish(false));
  root.addEventListener("wheel", (event) => { event.preventDefault(); zoomBy(event.deltaY < 0 ? 0.8 : 1.25, at(event)); }, {passive: false});
  document.addEventListener("keydown", (event) => {
    const arrow = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[event.key];
    const does = {a: () => decide("accepted"), r: () => decide("rejected"), u: takeBack, v: () => turn(1), x: () => turn(0),
      "+": () => zoomBy(0.7), "=": () => zoomBy(0.7), "-": () => zoomBy(1 / 0.7)}[event.key.toLowerCase()];
    if (event.altKey || drag) return;
    if (event.ctrlKey || event.metaKey) { if (event.key.toLowerCase() !== "z") return; takeBack(); }
    else if (arrow && event.shiftKey) nudge(arrow);
    else if (arrow) arrow[0] ? show(current + arrow[0]) : choose(chosen + arrow[1]);
    else if (does) does();
    else return;
    event.preventDefault();
  });
}

if (items.length) {
  build();
  listen();
  show(Math.max(0, items.findIndex((one) => !isDecided(one))));
} else byId("page").replaceChildren(el("h1", {}, "Nothing to review"), el("p", {}, "All unlabelled instances of this run have been reviewed."));

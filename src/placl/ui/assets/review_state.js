// What is under review. Every change is a new state of one instance, saved at once; undoing saves the state before.
const told = JSON.parse(document.getElementById("data").textContent);
const reviewer = Math.random().toString(36).slice(2, 10);
const items = told.items.map((item) => ({
  ...item, verdict: null, visibility: item.keypoints.map(() => 2), revision: 0, changes: 0,
}));
const numberOf = new Map(items.map((item, n) => [item.id, n]));
const past = [];  // {n, before, kind}
const unsaved = new Set();  // numbers of instances
let trouble = "", news = "", isSaving = false;

const isDecided = (item) => item.verdict === "accepted" || item.verdict === "rejected";
const count = (verdict) => items.filter((item) => item.verdict === verdict).length;
const copied = (points) => points.map((point) => [...point]);
const stateOf = ({verdict, keypoints, visibility}) => ({verdict, keypoints: copied(keypoints), visibility: [...visibility]});
const rounded = (value) => Math.round(100 * value) / 100;

// Changes of one kind that follow each other, such as steps of an arrow key, are undone together.
function change(n, next, kind = "") {
  if (!kind || past.at(-1)?.kind !== kind) past.push({n, kind, before: stateOf(items[n])});
  set(n, next);
}
function set(n, next) {
  Object.assign(items[n], next);
  items[n].changes++;
  unsaved.add(n);
  news = "";
  save();
}
function undo() {
  const last = past.pop();
  if (last) set(last.n, {...last.before, verdict: last.before.verdict || "open"});
  return last;
}
// What moves after it was accepted stays accepted; anything else waits for a decision.
const afterMove = (item) => (item.verdict === "accepted" ? "accepted" : "open");

function body(n) {
  const {id, verdict, keypoints, visibility, revision} = items[n];
  const places = keypoints.map((point) => point.map(rounded));
  return JSON.stringify({id, verdict: verdict || "open", keypoints: places, visibility, reviewer, seen: revision});
}
async function save() {
  if (isSaving) return;
  isSaving = true;
  while (unsaved.size) {
    const [n] = unsaved, item = items[n], changes = item.changes;
    try {
      const answer = await fetch("save", {method: "POST", body: body(n), keepalive: true});
      const kept = await answer.json();
      if (!answer.ok) throw new Error(kept.error);
      item.revision = kept.revision;
      if (item.changes === changes) unsaved.delete(n);
      if (kept.replaced) news = `Number ${n + 1} had been saved by another reviewer meanwhile: yours has replaced it.`;
      trouble = "";
    } catch (error) {
      const why = error instanceof TypeError ? "the server does not answer" : error.message.replace(/\.$/, "");
      trouble = `Not saved: ${why}. Trying again; leave this page open.`;
      unsaved.delete(n);
      unsaved.add(n);  // behind the others
      draw();
      await new Promise((done) => setTimeout(done, 1500));
    }
  }
  isSaving = false;
  draw();
}

// What others have saved. The later save holds, and whoever was first is told.
function take(saved) {
  const n = numberOf.get(saved.id);
  if (n === undefined || unsaved.has(n) || saved.revision <= items[n].revision) return false;
  const {verdict, keypoints, visibility, revision} = saved;
  Object.assign(items[n], {verdict, keypoints, visibility, revision});
  for (let i = past.length - 1; i >= 0; i--) if (past[i].n === n) past.splice(i, 1);  // it would undo theirs
  return true;
}
async function look() {
  if (isSaving) return;
  const before = trouble;
  let taken = [];
  try {
    const answer = await fetch("verdicts.json", {cache: "no-store"});
    const saved = await answer.json();
    if (!answer.ok) throw new Error(saved.error);
    if (isBusy()) return;
    const known = items.map((item, n) => n === current || item.revision > 0);  // in front of us, or decided before
    taken = saved.filter(take).map((one) => numberOf.get(one.id));
    const told = taken.filter((n) => known[n]);
    if (told.length) news = `Another reviewer has changed number ${told.map((n) => n + 1).join(", ")}.`;
    trouble = "";
  } catch (error) {
    trouble = error instanceof TypeError ? "The server does not answer. Is placl ui still running?" : error.message;
  }
  if (taken.length || trouble !== before) draw();
}
told.verdicts.forEach(take);
setInterval(look, 2000);
addEventListener("beforeunload", (event) => { if (unsaved.size) event.preventDefault(); });
addEventListener("pagehide", () => {
  finish(true);  // closed in the middle of a drag
  for (const n of unsaved) navigator.sendBeacon("save", body(n));
});

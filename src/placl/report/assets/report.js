// Draws the report from the values in #data. Text from outside goes in as text nodes only.
const state = {run: 0, stage: null, threshold: null, filter: "all"};
let runs = JSON.parse(document.getElementById("data").textContent).runs;

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const shown = (value, digits = 1) => (isNumber(value) ? value.toFixed(digits) : "–");
const rounds = (run) => run.stages.filter((stage) => !stage.yardstick);
const title = (name) => name.replace(/^round_(\d+)$/, "round $1");

// From and to which round number an axis goes, and in which steps.
function scale(low, high) {
  if (high <= low) { const pad = Math.abs(low) * 0.05 || 1; low -= pad; high += pad; }
  const rough = (high - low) / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find((n) => n * power >= rough * 0.999);
  return [Math.floor(low / step + 1e-9) * step, Math.ceil(high / step - 1e-9) * step, step];
}

// --- charts: series are {name, points: [[x, y], ...], key, faint, dots, dashed}
function chart(heading, note, series, options = {}) {
  series = series.map((one) => ({...one, points: one.points.filter(([x, y]) => isNumber(x) && isNumber(y))})).filter((one) => one.points.length);
  if (!series.length) return null;
  const W = 460, H = 230, left = 46, bottom = 30, top = 10, right = 12;
  const xs = series.flatMap((one) => one.points.map((p) => p[0])), ys = series.flatMap((one) => one.points.map((p) => p[1]));
  const [x0, x1] = options.x || [Math.min(...xs), Math.max(...xs)];
  const [y0, y1, step] = scale(...(options.y || [Math.min(...ys), Math.max(...ys)]));
  const X = (x) => left + (x1 > x0 ? (x - x0) / (x1 - x0) : 0.5) * (W - left - right);
  const Y = (y) => H - bottom - (y - y0) / (y1 - y0 || 1) * (H - bottom - top);
  const parts = [];
  for (let n = 0; y0 + n * step <= y1 + step / 2; n++) {
    const value = y0 + n * step, y = Y(value).toFixed(1);
    parts.push(svg("line", {class: n ? "grid" : "axis", x1: left, x2: W - right, y1: y, y2: y}));
    parts.push(svg("text", {x: left - 6, y: +y + 4, "text-anchor": "end"}, String(+value.toPrecision(4))));
  }
  const ticks = options.ticks || [...new Set(xs)].slice(0, 40).map((x) => [x, String(+x.toPrecision(3))]);
  const every = Math.ceil(ticks.length / 9);
  ticks.forEach(([x, text], i) => { if (i % every === 0) parts.push(svg("text", {x: X(x).toFixed(1), y: H - 10, "text-anchor": "middle"}, text)); });
  if (options.diagonal) parts.push(svg("line", {class: "grid", x1: X(x0), y1: Y(y0), x2: X(x1), y2: Y(y1)}));
  const legend = [];
  for (const one of series) {
    const colour = `k${(one.key || 0) % 6}`, faint = one.faint ? " faint" : "";
    if (one.points.length > 1 && !one.dots)
      parts.push(svg("polyline", {class: `line ${colour}${faint}${one.dashed ? " dashed" : ""}`, points: one.points.map(([x, y]) => `${X(x).toFixed(1)},${Y(y).toFixed(1)}`).join(" ")}));
    for (const [x, y] of one.points)
      parts.push(svg("circle", {class: colour + faint, cx: X(x).toFixed(1), cy: Y(y).toFixed(1), r: one.dots ? 3 : 3.4}, svg("title", {}, `${one.name}: ${+y.toPrecision(4)}`)));
    if (!one.unnamed) legend.push(el("span", {class: `key ${colour}`}, one.name));
  }
  return el("figure", {}, el("strong", {}, heading), svg("svg", {viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": heading}, parts), el("figcaption", {}, legend, note ? el("span", {}, note) : null));
}
function bars(heading, names, series) {
  series = series.filter((one) => one.values.some(isNumber));
  if (!series.length || !names.length) return null;
  const line = 15, gap = 8, left = 130, W = 460, each = series.length * (line - 4) + gap;
  const high = Math.max(1, ...series.flatMap((one) => one.values.filter(isNumber)));
  const parts = [];
  names.forEach((name, i) => {
    parts.push(svg("text", {x: left - 8, y: i * each + each / 2 + 2, "text-anchor": "end"}, name.length > 18 ? name.slice(0, 17) + "…" : name, svg("title", {}, name)));
    series.forEach((one, j) => {
      if (!isNumber(one.values[i])) return;
      const width = Math.max(0.5, one.values[i] / high * (W - left - 46)), y = i * each + j * (line - 4) + 2;
      parts.push(svg("rect", {class: `k${one.key % 6}`, x: left, y, width: width.toFixed(1), height: line - 6, rx: 2}));
      parts.push(svg("text", {x: left + width + 5, y: y + 9}, one.values[i].toFixed(1)));
    });
  });
  const legend = series.map((one) => el("span", {class: `key k${one.key % 6}`}, one.name));
  return el("figure", {}, el("strong", {}, heading), svg("svg", {viewBox: `0 0 ${W} ${names.length * each + 4}`, role: "img", "aria-label": heading}, parts), el("figcaption", {}, legend));
}
const section = (heading, text, ...children) => {
  const found = children.flat(Infinity).filter(Boolean);
  return found.length ? el("section", {}, el("h2", {}, heading), text ? el("p", {}, text) : null, found) : null;
};
const charts = (...children) => { const found = children.flat(Infinity).filter(Boolean); return found.length ? el("div", {class: "charts"}, found) : null; };

// --- parts of the page
function scoreOf(stage) { return stage && isNumber(stage.test) ? stage.test : stage ? stage.val : null; }
function compared(run) {
  const by = Object.fromEntries(run.stages.map((stage) => [stage.name, stage]));
  const own = rounds(run);
  return {few: by.few || by.round_0, best: by[run.best] || own[own.length - 1], full: by.full};
}
// What the best network learned from, and which one it is.
function learnedFrom(run, best, labels) {
  const which = `(${title(best.name)}, ${!run.finished ? "so far" : (run.settings.rounds || {}).keep === "last" ? "the last" : run.taught ? "the one to use" : "the best"})`;
  if (best.name === "round_0") return `${labels} alone ${which}`;
  return `${run.method === "placl" ? "PLACL" : run.method}, ${labels} and ${(run.counts.half_1 || 0) + (run.counts.half_2 || 0)} images without ${which}`;
}
function headline(run) {
  const {few, best, full} = compared(run);
  if (!best) return el("p", {}, "No network is finished yet. The first numbers come with the first one.");
  const metric = best.metric, where = isNumber(best.test) ? "test" : "validation";
  const box = (stage, text, kind) => stage ? el("div", {class: `figure ${kind || ""}`}, el("b", {}, shown(scoreOf(stage))), el("span", {}, text)) : null;
  const labels = (stage) => stage && isNumber(stage.labels) ? `${stage.labels} labels` : "labels";
  const values = [few, best, full].map(scoreOf);
  const gap = full && few !== best && values.every(isNumber) && values[2] !== values[0] ? (values[1] - values[0]) / (values[2] - values[0]) : null;
  return el("div", {class: "headline"}, few !== best ? box(few, `${labels(few)} alone${run.taught && few.name === "round_0" ? ", of a network that only labels" : ""}`) : null, box(best, learnedFrom(run, best, labels(best)), "best"), box(full, `all ${labels(full)}`),
    gap === null ? null : el("div", {class: "figure"}, el("b", {}, `${(100 * gap).toFixed(0)} %`), el("span", {}, "of the gap recovered")), el("div", {class: "figure"}, el("b", {}, metric), el("span", {}, `in percent, on ${where} data`)));
}
function stageTable(run) {
  if (!run.stages.length) return null;
  const of = (part) => run.domains[part] ? `${part} (${run.domains[part]})` : part;
  const head = ["stage", of("val"), of("test"), "labels", "pseudo-labels used", "training, s"];
  return el("div", {class: "wide"}, el("table", {}, el("thead", {}, el("tr", {}, head.map((text) => el("th", {}, text)))), el("tbody", {}, run.stages.map((stage) =>
    el("tr", stage.name === run.best ? {class: "best", title: "the model in best/"} : {}, [title(stage.name) + (stage.name === run.best ? " *" : ""), shown(stage.val, 2), shown(stage.test, 2), shown(stage.labels, 0), isNumber(stage.selected) ? `${(100 * stage.selected).toFixed(0)} %` : "–", shown(stage.seconds, 0)].map((text) => el("td", {}, text)))))));
}
// Across domains: what each source and target has of the keypoints that are trained.
function domains(run) {
  const shares = run.domains.keypoints || [];
  return shares.length ? el("div", {class: "wide"}, el("table", {}, el("thead", {}, el("tr", {}, ["source or target", "keypoints", "not trained"].map((text) => el("th", {}, text)))), el("tbody", {}, shares.map((one) =>
    el("tr", {}, [one.name, String(one.shared), one.unused.join(", ") || "–"].map((text) => el("td", {}, text))))))) : null;
}
function accuracy(list) {
  const series = [];
  list.forEach((run, i) => {
    for (const [part, dashed] of [["val", true], ["test", false]])
      series.push({name: list.length > 1 ? `${run.name}, ${part}` : part, key: list.length > 1 ? i : dashed ? 5 : 0, dashed, points: rounds(run).map((stage, r) => [r, stage[part]])});
  });
  const longest = rounds(list.reduce((a, b) => (rounds(b).length > rounds(a).length ? b : a)));
  return chart("accuracy over rounds", "", series, {ticks: longest.map((stage, r) => [r, stage.name.replace("round_", "")])});
}
function curricula(list) {
  const series = [];
  list.forEach((run, i) => rounds(run).filter((stage) => stage.thresholds).forEach((stage, j) => series.push({name: (list.length > 1 ? `${run.name}, ` : "") + title(stage.name), key: list.length > 1 ? i : j, points: stage.thresholds.map((t, g) => [g + 1, t])})));
  return chart("thresholds over epoch groups", "higher: only the surest pseudo-labels", series, {y: [0, 1]});
}
function selected(run) {
  const series = rounds(run).filter((stage) => stage.shares).map((stage, j) => ({name: title(stage.name), key: j, points: stage.shares.map((share, g) => [g + 1, 100 * share])}));
  return chart("pseudo-labels used over epoch groups, %", "", series, {y: [0, 100]});
}
function searches(run) {
  const all = [...run.stages, ...run.searching].filter((stage) => stage.search.length);
  const stepsOf = (stage) => [...new Map(stage.search.map((row) => [row.step, row])).values()];
  const over = (heading, key, note) => chart(heading, note, all.map((stage, j) => ({name: title(stage.name), key: j, points: stepsOf(stage).map((row) => [row.step, row[key]])})));
  const rewards = all.flatMap((stage, j) => [{name: title(stage.name), key: j, dots: true, faint: true, unnamed: true, points: stage.search.map((row) => [row.step, row.reward])}, {name: title(stage.name), key: j, points: stepsOf(stage).map((row) => [row.step, row.reward_mean])}]);
  return charts(chart("rewards over search steps", "dots: candidates, lines: their mean", rewards), over("clip fraction", "clip_fraction", "of the policy's probability ratios"), over("approximate KL divergence", "approx_kl", "of the policy before and after a step"));
}
function trust(run) {
  const own = rounds(run).filter((stage) => (stage.reliability.bins || []).length);
  if (!own.length) return [];
  const alpha = own[0].reliability.alpha;
  const last = own.length > 4 ? [own[0], ...own.slice(-3)] : own;
  const line = (key, scale) => last.map((stage) => ({name: title(stage.name), key: own.indexOf(stage), points: stage.reliability.bins.map((bin) => [bin.confidence, scale * bin[key]])}));
  const confidences = last.flatMap((stage) => stage.reliability.bins.map((bin) => bin.confidence)), low = Math.min(...confidences), high = Math.max(...confidences);
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => low + share * (high - low)).map((x) => [x, x.toFixed(2)]);
  return [chart(`right within ${alpha} of the length, %, by confidence`, "a tenth of the keypoints to a point", line("right", 100), {y: [0, 100], ticks}), chart("mean error by confidence", "in lengths", line("error", 1), {ticks})];
}
function keypoints(list) {
  const names = [...new Set(list.flatMap((run) => rounds(run).flatMap((stage) => Object.keys(stage.per_keypoint))))];
  const series = [];
  if (list.length > 1) list.forEach((run, i) => { const {best} = compared(run); if (best) series.push({name: run.name, key: i, values: names.map((name) => best.per_keypoint[name])}); });
  else { const own = rounds(list[0]); for (const stage of own.length > 1 ? [own[0], own[own.length - 1]] : own) series.push({name: title(stage.name), key: own.indexOf(stage) ? 0 : 5, values: names.map((name) => stage.per_keypoint[name])}); }
  return bars("right on validation data, %, by keypoint", names, series);
}

// --- the gallery
const mean = (values) => values.reduce((a, b) => a + b, 0) / (values.length || 1);
// A score's rank in [0, 1] as learn/select.py has it, from the quantiles of all scores: ties share one, and none is 0 or 1.
function rank(quantiles, value) {
  const last = quantiles.length - 1;
  const from = quantiles.findIndex((q) => q >= value), to = last - [...quantiles].reverse().findIndex((q) => q <= value);
  let place;
  if (from === -1) place = last;
  else if (to > last) place = 0;
  else if (from <= to) place = (from + to) / 2;
  else place = to + (value - quantiles[to]) / (quantiles[from] - quantiles[to]);
  return Math.min(1 - 5e-5, Math.max(5e-5, last ? place / last : 0.5));
}
function gallery(run) {
  const told = run.gallery, names = Object.keys(told.opinions || {});
  if (!names.length) return null;
  if (!names.includes(state.stage)) state.stage = names[names.length - 1];
  const own = rounds(run), place = own.findIndex((stage) => stage.name === state.stage);
  const next = own[place + 1] || run.searching.find((stage) => stage.name === `round_${place + 1}`);
  const opinion = told.opinions[state.stage], before = told.opinions[names[names.indexOf(state.stage) - 1]];
  const byInstance = run.select.level !== "keypoint";
  const sample = opinion.confidence.flatMap((row) => (byInstance ? [mean(row)] : row)).sort((a, b) => a - b);
  const quantiles = next && (next.confidence.quantiles || []).length ? next.confidence.quantiles : sample;
  const score = run.select.scale === "quantile" ? (value) => rank(quantiles, value) : (value) => value;
  const first = next && next.thresholds ? mean(next.thresholds) : 0.5;
  const threshold = state.threshold === null ? first : state.threshold;
  const cards = told.ids.map((id, i) => {
    const sure = opinion.confidence[i], whole = score(mean(sure)) > threshold;
    const chosen = sure.map((value) => (byInstance ? whole : score(value) > threshold));
    const moved = before ? mean(opinion.keypoints[i].map(([x, y], k) => Math.hypot(x - before.keypoints[i][k][0], y - before.keypoints[i][k][1]))) : 0;
    return {id, i, sure: mean(sure), chosen, moved, used: chosen.filter(Boolean).length};
  });
  const filters = {all: cards, worst: [...cards].sort((a, b) => a.sure - b.sure), changed: [...cards].sort((a, b) => b.moved - a.moved), rejected: cards.filter((card) => !card.used)};
  const list = filters[state.filter] || cards;
  const count = cards.reduce((sum, card) => sum + card.used, 0), total = cards.reduce((sum, card) => sum + card.chosen.length, 0);
  const share = run.select.scale === "quantile" ? 1 - threshold : 1 - rank(quantiles, threshold);
  const choose = (key) => (event) => { state[key] = event.target.value; if (key === "stage") state.threshold = null; render(); };
  return el("div", {id: "gallery"},
    el("div", {class: "controls"},
      el("label", {}, "labels of", el("select", {id: "stage", onchange: choose("stage")}, names.map((name) => el("option", {value: name, selected: name === state.stage}, title(name))))),
      el("label", {}, "threshold", el("input", {id: "threshold", type: "range", min: 0, max: 1, step: 0.01, value: threshold, oninput: (event) => { state.threshold = +event.target.value; refresh(); }}), el("output", {id: "level"}, threshold.toFixed(2))),
      el("label", {}, "show", el("select", {id: "filter", onchange: choose("filter")}, [["all", "all"], ["worst", "least sure first"], ["changed", "most changed first"], ["rejected", "rejected"]].map(([value, text]) => el("option", {value, selected: value === state.filter}, text))))),
    el("p", {id: "selection"}, `${count} of ${total} keypoints here would be selected, and ${(100 * Math.max(0, Math.min(1, share))).toFixed(0)} % of ${byInstance ? "instances" : "keypoints"} in the round.` + (next && next.thresholds ? ` The round's thresholds: ${next.thresholds.map((t) => t.toFixed(2)).join(", ")}.` : "")),
    list.length ? el("div", {class: "tiles"}, list.map((card) => el("button", {class: `tile${card.used ? "" : " out"}`, type: "button", title: card.id, onclick: () => zoom(run, card.i)}, picture(told, card.i, opinion, card.chosen), el("span", {}, `${card.sure.toFixed(2)} · ${card.id}`)))) : el("p", {}, "None is rejected at this threshold."));
}
function picture(told, i, opinion, chosen) {
  const size = told.size, view = told.view || size, edge = (size - view) / 2; // what the network sees of a crop
  const dot = view / 42, points = opinion.keypoints[i], side = sides(told);
  const parts = [svg("image", {href: told.pictures[i], width: size, height: size})];
  for (const [a, b] of told.edges) if (points[a] && points[b] && chosen[a] && chosen[b]) parts.push(svg("line", {class: "bone", "stroke-width": dot / 2.2, x1: points[a][0] + 0.5, y1: points[a][1] + 0.5, x2: points[b][0] + 0.5, y2: points[b][1] + 0.5}));
  points.forEach(([x, y], k) => parts.push(dyed(svg("circle", {class: `${side[k]}${chosen[k] ? "" : " rejected"}`, cx: x + 0.5, cy: y + 0.5, r: dot, "stroke-width": dot / 2.4}, svg("title", {}, `${told.keypoints[k]}: ${opinion.confidence[i][k].toFixed(2)}`)), told, k)));
  return svg("svg", {viewBox: `${edge} ${edge} ${view} ${view}`}, parts);
}
function zoom(run, i) {
  const told = run.gallery, dialog = document.getElementById("zoom");
  const each = Object.entries(told.opinions).map(([name, opinion]) => el("div", {}, picture(told, i, opinion, opinion.confidence[i].map(() => true)), `${title(name)}, mean confidence ${mean(opinion.confidence[i]).toFixed(2)}`));
  dialog.replaceChildren(el("h2", {}, told.ids[i]), el("div", {class: "evolution"}, each), el("p", {}), el("button", {type: "button", onclick: () => dialog.close(), autofocus: true}, "Close"));
  dialog.showModal();
}
function refresh() { // the slider is being held: all but the controls is drawn anew
  const fresh = gallery(runs[state.run]), old = document.getElementById("gallery");
  document.getElementById("level").textContent = state.threshold.toFixed(2);
  old.querySelector("#selection").replaceWith(fresh.querySelector("#selection"));
  old.lastElementChild.replaceWith(fresh.lastElementChild);
}

function render() {
  const run = runs[Math.min(state.run, runs.length - 1)], several = runs.length > 1;
  const counts = run.counts, summary = `${counts.labelled || 0} labelled, ${(counts.half_1 || 0) + (counts.half_2 || 0)} unlabelled, ${counts.val || 0} validation and ${counts.test || 0} test instances` + (run.finished ? "" : " · not finished");
  const tabs = several ? el("div", {class: "tabs", role: "group", "aria-label": "runs"}, runs.map((one, i) => el("button", {type: "button", "aria-pressed": String(i === state.run), onclick: () => { state.run = i; state.stage = null; state.threshold = null; render(); }}, one.name))) : null;
  const list = several ? runs : [run];
  const all = several ? el("div", {class: "wide"}, el("table", {}, el("thead", {}, el("tr", {}, ["run", "labels alone", "best", "all labels", "rounds"].map((text) => el("th", {}, text)))), el("tbody", {}, runs.map((one) => { const {few, best, full} = compared(one); return el("tr", {}, [one.name, shown(scoreOf(few), 2), shown(scoreOf(best), 2), shown(scoreOf(full), 2), String(rounds(one).filter((stage) => /^round_[1-9]/.test(stage.name)).length)].map((text) => el("td", {}, text))); })))) : null;
  document.getElementById("page").replaceChildren(...[
    el("h1", {}, several ? `${runs.length} runs` : run.name), several ? null : el("p", {}, summary),
    several ? section("Compared", "", all, charts(accuracy(list), curricula(list), keypoints(list))) : null,
    tabs, several ? el("p", {}, summary) : null, headline(run), run.health.map((text) => el("div", {class: "warn", role: "note"}, text)),
    section("Rounds", "Each round, a new network learns from labels and from what the network before said of images without.", charts(accuracy([run]), curricula([run]), selected(run)), stageTable(run)),
    section("Across domains", run.domains.val ? `Labels of the ${run.domains.val} validate, labels of the target test.` : "", domains(run)),
    section("Search", "Candidates are short trainings, scored on validation data.", searches(run)),
    section("Confidence and truth", "What networks said of validation data, whose labels they never learned from.", charts(trust(run), keypoints([run]))),
    section("Pseudo-labels", "Filled: selected at the threshold. Hollow: not. Click a picture for what each round said of it.", gallery(run)),
    el("details", {}, el("summary", {}, "Settings and machine"), el("pre", {}, JSON.stringify({settings: run.settings, environment: run.environment}, null, 2)))].filter(Boolean).flat());
}
render();

const live = document.body.dataset.live;
let last = ""; // what the server said
if (live) setInterval(async () => {
  try {
    const answer = await fetch(live, {cache: "no-store"});
    if (!answer.ok || document.getElementById("zoom").open || document.activeElement.id === "threshold") return;
    const text = await answer.text();
    if (text !== last) { last = text; runs = JSON.parse(text).runs; render(); }
  } catch (error) { /* the server has gone: the page stays as it is */ }
}, 3000);

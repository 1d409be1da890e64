"use strict";
// What all pages draw with. Text from outside goes in as text nodes only.
const NS = "http://www.w3.org/2000/svg";

function add(parent, children) {
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined && child !== false) parent.append(child);
  return parent;
}
function el(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value === true ? "" : value);
  }
  return add(node, children);
}
function svg(name, attributes, ...children) {
  const node = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  return add(node, children);
}
// "left", "right" or "middle" of each keypoint; "own" where there are no pairs, and each has a hue of its own.
function sides(told) {
  if (!told.flip_pairs.length) return told.keypoints.map(() => "own");
  const found = told.keypoints.map(() => "middle");
  for (const [a, b] of told.flip_pairs) {
    const swapped = /left|^l[_-]/i.test(told.keypoints[b]);
    found[swapped ? b : a] = "left";
    found[swapped ? a : b] = "right";
  }
  return found;
}
// A dot of keypoint k, as overlay.py colours it. The policy forbids style attributes, not properties.
function dyed(node, told, k) {
  node.style.setProperty("--own", `hsl(${360 * k / told.keypoints.length} 100% 60%)`);
  return node;
}

"""What a machine can see of a page: texts that lie on each other, faint texts, parts that jump."""

from __future__ import annotations

from typing import Any

# Before the page's own scripts: adds up layout shifts that nobody caused.
WATCH_SHIFTS = """
window.shifted = 0;
new PerformanceObserver((list) => list.getEntries().forEach((entry) => {
  if (!entry.hadRecentInput) window.shifted += entry.value;
})).observe({type: "layout-shift", buffered: true});
"""
_VISIBLE = """
const seen = (node) => {
  for (let at = node; at && at.nodeType === 1; at = at.parentElement) {
    const style = getComputedStyle(at);
    if (style.display === "none" || style.visibility === "hidden" || Number(style.opacity) === 0
        || at.matches("details:not([open]) > *:not(summary), .hidden, .skip, .hoverlayer"))
      return false;
  }
  return true;
};
"""
# Pairs of texts whose boxes share more than a sliver, as "one | other".
OVERLAPS = (
    "() => {"
    + _VISIBLE
    + """
  const boxes = [];
  const add = (node, rect, text) => {
    if (rect.width > 1 && rect.height > 1) boxes.push({node, rect, text: text.trim()});
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode, parent = text.parentElement;
    if (!text.textContent.trim() || !seen(parent)) continue;
    if (parent.closest("svg, script, style, option, datalist")) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    for (const rect of range.getClientRects()) add(parent, rect, text.textContent);
  }
  document.querySelectorAll("svg.main-svg text").forEach((node) => {
    // The box of what is turned is larger than the text.
    if (/rotate\\((?!0)/.test(node.getAttribute("transform") || "") || !seen(node)) return;
    add(node, node.getBoundingClientRect(), node.textContent);
  });
  const found = [];
  for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
    const [a, b] = [boxes[i], boxes[j]];
    if (a.node.contains(b.node) || b.node.contains(a.node)) continue;
    const across = Math.min(a.rect.right, b.rect.right) - Math.max(a.rect.left, b.rect.left);
    const down = Math.min(a.rect.bottom, b.rect.bottom) - Math.max(a.rect.top, b.rect.top);
    if (across > 3 && down > 4) found.push(`${a.text.slice(0, 40)} | ${b.text.slice(0, 40)}`);
  }
  return found;
}"""
)
# Texts of charts that end beyond their picture.
CUT = (
    "() => {"
    + _VISIBLE
    + """
  return [...document.querySelectorAll("svg.main-svg text")].filter((node) => {
    if (!node.textContent.trim() || !seen(node)) return false;
    const text = node.getBoundingClientRect(), all = node.closest("svg").getBoundingClientRect();
    return text.right > all.right + 2 || text.left < all.left - 2;
  }).map((node) => node.textContent.slice(0, 40));
}"""
)
# Texts of charts with a contrast below 4.5 to what is behind them, which axe does not look at.
FAINT = (
    "() => {"
    + _VISIBLE
    + """
  const rgba = (text) => {
    const parts = (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
    return [parts[0], parts[1], parts[2], parts.length > 3 ? parts[3] : 1];
  };
  const over = (top, below) => [0, 1, 2].map((k) => top[3] * top[k] + (1 - top[3]) * below[k])
    .concat(1);
  const light = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] === 1) return colour;
    }
    return [255, 255, 255, 1];
  };
  const found = [];
  document.querySelectorAll("svg.main-svg text").forEach((node) => {
    if (!node.textContent.trim() || !seen(node)) return;
    let ground = behind(node.closest(".js-plotly-plot").parentElement);
    const bar = node.closest(".point");
    if (bar && node.matches(".bartext-inside")) {
      const path = bar.querySelector("path"), style = getComputedStyle(path);
      const fill = rgba(style.fill);
      fill[3] *= Number(style.fillOpacity) * Number(style.opacity);
      ground = over(fill, ground);
    }
    const ink = over(rgba(getComputedStyle(node).fill), ground);
    const [low, high] = [light(ink), light(ground)].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) found.push(`${node.textContent.slice(0, 40)}: ${ratio.toFixed(2)}`);
  });
  return found;
}"""
)


def looks_right(page: Any) -> list[str]:
    """What is wrong with how a page looks now; nothing if all is well."""
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return [
        *([f"{wide} px run over the edge"] if wide > 0 else []),
        *(f"cut: {text}" for text in page.evaluate(CUT)),
        *(f"overlap: {pair}" for pair in page.evaluate(OVERLAPS)),
        *(f"faint: {text}" for text in page.evaluate(FAINT)),
    ]

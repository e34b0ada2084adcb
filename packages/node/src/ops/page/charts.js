// Pictures: plain SVG without a library. Each has a label with its numbers, and each colour has a pattern of its own.
import { page } from "./page.js"
import { element, svg } from "./elements.js"
import { clock, took } from "./words.js"

/** @typedef {import("../PageState.ts").History} History */
/** @typedef {import("../PageState.ts").Minute} Minute */

const minute = 60_000
/** Milliseconds of the picture of a target. */
const span = 15 * minute
/** Milliseconds of one slot of a history. */
const slot = 30_000

/** The patterns, by the class whose colour they have. @type {Record<string, string>} */
const patterns = {
  repeated: "M0 6 L6 0",
  failed: "M0 0 L6 6 M0 6 L6 0",
  out: "M3 2.5 V3.5"
}

/** The patterns of one page. Pictures refer to them by id. */
export const definitions = () =>
  svg(
    "svg",
    { width: 0, height: 0, class: "definitions", "aria-hidden": "true" },
    ...Object.entries(patterns).map(([name, d]) =>
      svg(
        "pattern",
        { id: `p-${name}`, width: 6, height: 6, patternUnits: "userSpaceOnUse" },
        svg("rect", { width: 6, height: 6, class: `p-${name}` }),
        svg("path", { d, class: "p-line" })
      )
    )
  )

/** @param {string} kind */
const paint = (kind) => (kind in patterns ? { fill: `url(#p-${kind})` } : { class: `p-${kind}` })

/** @type {[string, string][]} */
const kinds = [
  ["answered", "answered"],
  ["repeated", "failed, the call went on"],
  ["failed", "failed, and so did the call"],
  ["out", "not asked"]
]

export const legend = () => [
  element("span", {}, "Each strip: 15 minutes ago on the left, now on the right."),
  ...kinds.map(([kind, words]) =>
    element(
      "span",
      {},
      svg(
        "svg",
        { width: 14, height: 14, "aria-hidden": "true" },
        svg("rect", { width: 14, height: 14, ...paint(kind) })
      ),
      ` ${words}`
    )
  )
]

/** The last minutes of a target: the time runs to the right. @param {History | undefined} history */
export const strip = (history) => {
  const end = page.now()
  const start = end - span
  const at = (/** @type {number} */ time) => (100 * Math.min(span, Math.max(0, time - start))) / span
  const outs = (history?.outs ?? []).flatMap(({ since, until }) => {
    const [from, to] = [at(since), at(until ?? end)]
    return to > from
      ? [svg("rect", { x: `${from}%`, width: `${to - from}%`, y: 17, height: 5, ...paint("out") })]
      : []
  })
  const sums = { answered: 0, repeated: 0, failed: 0 }
  const bars = (history?.slots ?? []).flatMap((one) => {
    const all = one.answered + one.repeated + one.failed
    let y = 16
    return /** @type {const} */ (["answered", "repeated", "failed"]).flatMap((kind) => {
      const count = one[kind]
      sums[kind] += count
      if (count === 0) return []
      const height = (16 * count) / all
      y -= height
      return [
        svg("rect", { x: `${at(one.at)}%`, width: `${(90 * slot) / span}%`, y, height, ...paint(kind) })
      ]
    })
  })
  const label = `Last 15 minutes: ${sums.answered} answered, ${sums.repeated + sums.failed} failed, ${outs.length} times not asked`
  return svg(
    "svg",
    { class: "strip", role: "img", "aria-label": label, height: 22 },
    svg("title", {}, label),
    svg("rect", { width: "100%", height: 16, class: "p-none" }),
    ...outs,
    ...bars
  )
}

/**
 * Bars of the last minutes, one on the other.
 * @param {string} name
 * @param {readonly Minute[]} minutes
 * @param {readonly (readonly [kind: string, of: (minute: Minute) => number])[]} parts
 * @param {(value: number) => string} words
 */
export const bars = (name, minutes, parts, words) => {
  const last = Math.floor(page.now() / minute)
  const sum = (/** @type {Minute} */ one) => parts.reduce((all, [, of]) => all + of(one), 0)
  const top = Math.max(...minutes.map(sum), 0)
  const latest = minutes.findLast((one) => sum(one) > 0)
  const made = minutes.flatMap((one) => {
    const column = 14 - (last - Math.floor(one.at / minute))
    let y = 40
    return parts.flatMap(([kind, of]) => {
      const height = top === 0 ? 0 : (40 * of(one)) / top
      y -= height
      return height === 0 || column < 0
        ? []
        : [
            svg(
              "rect",
              { x: `${(column * 100) / 15}%`, width: "5.6%", y, height, ...paint(kind) },
              svg("title", {}, `${clock(one.at)}: ${words(of(one))}`)
            )
          ]
    })
  })
  const label =
    latest === undefined ? `${name}: nothing yet` : `${name}: ${words(sum(latest))}, at most ${words(top)}`
  return element(
    "figure",
    {},
    element("figcaption", {}, label),
    svg(
      "svg",
      { role: "img", "aria-label": label, height: 40, class: "bars" },
      svg("rect", { width: "100%", height: 40, class: "p-none" }),
      ...made
    )
  )
}

/**
 * The bar of one step of a call on the time axis of its call. A step that runs grows until it ends.
 * @param {string} kind
 * @param {{ from: number, to: number | undefined, start: number, end: number | undefined }} times
 */
export const bar = (kind, { end, from, start, to }) => {
  const made = svg("rect", {
    y: 2,
    height: 10,
    "data-from": from,
    "data-to": to,
    "data-start": start,
    "data-end": end,
    ...paint(kind)
  })
  place(made)
  return svg(
    "svg",
    { class: "bar", height: 14, "aria-hidden": "true" },
    svg("rect", { width: "100%", y: 6, height: 1, class: "p-axis" }),
    made
  )
}

/** @param {SVGElement} one */
const place = (one) => {
  const { end, from, start, to } = one.dataset
  const [first, last] = [Number(start), Number(end ?? page.now())]
  const length = Math.max(1, last - first)
  const left = (100 * (Number(from) - first)) / length
  const width = (100 * (Number(to ?? last) - Number(from))) / length
  one.setAttribute("x", `${Math.min(99, Math.max(0, left))}%`)
  one.setAttribute("width", `${Math.max(0.6, Math.min(100 - left, width))}%`)
}

export const tickBars = () => {
  for (const one of document.querySelectorAll("rect[data-from]:not([data-end])")) {
    if (one instanceof SVGElement) place(one)
  }
}

/** The length of the axis of a call. @param {number} millis */
export const axis = (millis) =>
  element("span", { class: "axis" }, element("span", {}, "0"), element("span", {}, took(millis)))

// Elements, times that tick, and lists that are left alone while nothing changes. Texts are set as text, never as markup.
import { page } from "./page.js"
import { colourOf, seconds, signs } from "./words.js"

/** Rows of one list that are in sight, and all of them: the others open with a click. */
const rowsInSight = 20
const maxRows = 50

/** @param {string} id */
export const at = (id) => {
  const found = document.getElementById(id)
  if (found === null) throw new Error(`There is no element ${id}.`)
  return found
}

/** @typedef {string | Node | undefined} Child */

/**
 * @param {string} name
 * @param {Record<string, string | number | undefined>} attributes
 * @param {Child[]} children
 */
export const element = (name, attributes = {}, ...children) =>
  filled(document.createElement(name), attributes, children)

/**
 * @param {string} name
 * @param {Record<string, string | number | undefined>} attributes
 * @param {Child[]} children
 */
export const svg = (name, attributes = {}, ...children) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children)

/**
 * @template {Element} E
 * @param {E} made
 * @param {Record<string, string | number | undefined>} attributes
 * @param {Child[]} children
 */
const filled = (made, attributes, children) => {
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined) made.setAttribute(key, String(value))
  }
  for (const child of children) if (child !== undefined && child !== "") made.append(child)
  return made
}

/** @param {Child[]} children */
export const row = (...children) => element("div", { class: "row" }, ...children)
/** @param {string} text */
export const weak = (text) => (text === "" ? undefined : element("span", { class: "weak" }, text))
/** @param {Child[]} children */
export const grow = (...children) => element("span", { class: "grow" }, ...children)

/** @param {string} word @param {string} [colour] */
export const badge = (word, colour = colourOf(word)) =>
  element(
    "span",
    { class: `badge ${colour}` },
    element("span", { "aria-hidden": "true" }, `${signs[colour] ?? ""} `),
    word
  )

// -----------------------------------------------------------------------------
// Times
// -----------------------------------------------------------------------------

/** Counts down to a time of the server. @param {number | null | undefined} until */
export const countdown = (until, before = "", after = "") =>
  until === null || until === undefined
    ? undefined
    : ticked(element("time", { "data-until": until, "data-before": before, "data-after": after }))

/** Counts up from a time of the server. @param {number} since */
export const age = (since, before = "", after = "") =>
  ticked(element("time", { "data-since": since, "data-before": before, "data-after": after }))

/** @param {HTMLElement} made */
const ticked = (made) => {
  const { after = "", before = "", since, until } = made.dataset
  const time = until === undefined ? page.now() - Number(since) : Number(until) - page.now()
  made.textContent =
    until !== undefined && time <= 0
      ? `${before.replace(/in $/, "")}now`
      : `${before}${seconds(time)}${after}`
  return made
}

export const tickTimes = () => {
  for (const one of document.querySelectorAll("time[data-until], time[data-since]")) {
    if (one instanceof HTMLElement) ticked(one)
  }
}

// -----------------------------------------------------------------------------
// Lists
// -----------------------------------------------------------------------------

/** Rendered data by list, so that a list that is the same is left alone. @type {Map<string, string>} */
const rendered = new Map()

let isPressed = false
addEventListener("pointerdown", ({ button }) => (isPressed = button === 0))
for (const end of ["pointerup", "pointercancel", "contextmenu", "blur"])
  addEventListener(end, () => (isPressed = false))

/** Draws this place anew next time. @param {string} id */
export const forget = (id) => rendered.delete(id)

/**
 * True when the data of this place have changed. A click on a row that is drawn again meanwhile would be lost, so nothing
 * is drawn until it ends.
 * @param {string} id
 * @param {unknown} data
 */
export const isNew = (id, data) => {
  if (isPressed) return false
  const key = JSON.stringify([data, page.hasActions()])
  if (rendered.get(id) === key) return false
  rendered.set(id, key)
  return true
}

/**
 * Puts children into a place. What is open stays open. What has the focus keeps it, or gives it to the place: a button that
 * is gone would send the keyboard back to the begin of the page.
 * @param {HTMLElement} holder
 * @param {(string | Node)[]} children
 */
export const replaced = (holder, children) => {
  const keyOf = (/** @type {Element | null} */ one) =>
    one instanceof HTMLElement ? one.dataset["key"] : undefined
  const open = new Set([...holder.querySelectorAll("details[open]")].map(keyOf))
  const focused = holder.contains(document.activeElement) ? keyOf(document.activeElement) : undefined
  holder.replaceChildren(...children)
  for (const one of holder.querySelectorAll("details")) one.open = open.has(keyOf(one))
  if (focused !== undefined) focusOn(focused, holder)
}

/** Gives the focus to what has the key, or else to the place. @param {string} key @param {HTMLElement} place */
export const focusOn = (key, place) => {
  const found = [...place.querySelectorAll("[data-key]")].find(
    (one) => one instanceof HTMLElement && one.dataset["key"] === key
  )
  if (found instanceof HTMLElement) return found.focus()
  place.tabIndex = -1
  // A long place would scroll the first line away.
  place.focus({ preventScroll: true })
}

/**
 * @template T
 * @param {string} id
 * @param {readonly T[]} items
 * @param {(item: T) => Child} render
 * @param {string} [empty] Without it an empty list hides its section.
 */
export const list = (id, items, render, empty) => {
  if (empty === undefined) at(`has-${id}`).hidden = items.length === 0
  if (!isNew(id, items)) return
  const rows = items.slice(0, maxRows).map((item) => element("li", {}, render(item)))
  if (items.length === 0 && empty !== undefined) rows.push(element("li", { class: "weak" }, empty))
  if (items.length > maxRows)
    rows.push(element("li", { class: "weak" }, `and ${items.length - maxRows} more`))
  const others = rows.splice(rowsInSight)
  if (others.length > 0) {
    const key = `others-${id}`
    const summary = element("summary", { "data-key": `${key}-summary` }, `${others.length} more`)
    rows.push(
      element("li", {}, element("details", { "data-key": key }, summary, element("ul", {}, ...others)))
    )
  }
  replaced(at(id), rows)
}

// The first line: what works, what does not, since when, and what a person must do.
import { age, at, countdown, element, isNew, replaced } from "./elements.js"
import { page } from "./page.js"
import { clock, signs } from "./words.js"

/** @typedef {import("../Headline.ts").Part} Part */
/** @typedef {import("../Headline.ts").Level} Level */

/** @param {Part} part */
const line = ({ advice, level, next, since, text, until }) =>
  element(
    "li",
    { class: level === "warn" ? "busy" : level },
    element("span", { class: "sign", "aria-hidden": "true" }, signs[level]),
    element(
      "p",
      {},
      text,
      since === null ? undefined : element("span", {}, ` since ${clock(since)}`),
      since === null ? undefined : age(since, " (", ")"),
      next === null || until === null ? undefined : countdown(until, `; ${next} in `),
      ". ",
      advice === null ? undefined : element("strong", {}, advice)
    )
  )

export const renderHeadline = () => {
  const { headline } = page.state ?? {}
  if (headline === undefined || !isNew("headline", headline)) return
  show(headline.level, headline.parts.map(line))
}

/** @param {Level} level @param {Element[]} lines */
const show = (level, lines) => {
  const holder = at("headline")
  holder.className = level
  const list = holder.querySelector("ul")
  if (list !== null) replaced(list, lines)
}

/** The program does not answer: what is shown is old. @param {boolean} isGone @param {number} heardAt */
export const showGone = (isGone, heardAt) => {
  if (document.body.classList.contains("gone") === isGone) return
  document.body.classList.toggle("gone", isGone)
  if (!isGone) return void (isNew("headline", undefined), renderHeadline())
  isNew("headline", undefined)
  show("bad", [
    element(
      "li",
      { class: "bad" },
      element("span", { class: "sign", "aria-hidden": "true" }, signs["bad"]),
      element(
        "p",
        {},
        `The program has not answered since ${clock(heardAt)}. What is below was so at that time. `,
        element("strong", {}, "See whether it runs.")
      )
    )
  ])
}

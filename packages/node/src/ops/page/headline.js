// The first line: what works, what does not, since when, and what a person must do.
import { age, at, countdown, element, forget, isNew, replaced } from "./elements.js"
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

/** The keys of the sentences that were said last. */
let said = ""

export const renderHeadline = () => {
  const { headline } = page.state ?? {}
  if (headline !== undefined && isNew("headline", headline)) show(headline.level, headline.parts)
}

/** @param {Level} level @param {readonly Part[]} parts */
const show = (level, parts) => {
  const holder = at("headline")
  holder.className = level
  const list = holder.querySelector("ul")
  if (list !== null) replaced(list, parts.map(line))
  // Said aloud when it is about another problem, and not when a number changes.
  const keys = parts.map(({ key }) => key).join("\n")
  if (keys === said) return
  said = keys
  at("said").textContent = parts.map(({ advice, text }) => `${text}. ${advice ?? ""}`).join(" ")
}

/** The program does not answer: what is shown is old. @param {boolean} isGone @param {number} heardAt */
export const showGone = (isGone, heardAt) => {
  if (document.body.classList.contains("gone") === isGone) return
  document.body.classList.toggle("gone", isGone)
  forget("headline")
  if (!isGone) return renderHeadline()
  show("bad", [
    {
      key: "gone",
      level: "bad",
      needsPerson: true,
      text: `The program has not answered since ${clock(heardAt)}. What is below was so at that time`,
      since: null,
      next: null,
      until: null,
      advice: "See whether it runs."
    }
  ])
}

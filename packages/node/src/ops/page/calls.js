// Calls: each in one line, and opened as a waterfall on one time axis.
import { axis, bar } from "./charts.js"
import { age, badge, countdown, element, grow, row, weak } from "./elements.js"
import { page } from "./page.js"
import { counted, failureOf, took, waitOf } from "./words.js"

/** @typedef {import("../PageState.ts").Call} Call */
/** @typedef {import("../PageState.ts").Step} Step */

/** The end of a wait. One for the retry budget ends before it, when other calls are answered. @param {Step} step */
const ends = ({ reason, until }) => countdown(until, reason === "budget" ? "gives up in " : "ends in ")

/** @param {Step} step */
const wordsOf = ({ by, kind, reason, text }) =>
  kind === "wait" ? `waits ${waitOf(reason)}: ${text}${by === undefined ? "" : ` (${by})`}` : text

/** @type {Record<string, string>} */
const kinds = { answered: "answered", failed: "failed", overtaken: "out", over: "out" }

/** @param {Call} call @returns {(step: Step) => Element} */
const stepRow = (call) => (step) => {
  const { at: from, elapsed, kind, state } = step
  const isRunning = state === "running"
  const to =
    kind === "note" ? from : elapsed !== undefined ? from + elapsed : isRunning ? undefined : call.endedAt
  const paint = kind === "wait" ? "out" : isRunning ? "running" : (kinds[state] ?? "out")
  const time = elapsed === undefined ? "" : took(elapsed)
  return element(
    "li",
    {},
    bar(kind === "note" ? "note" : paint, { from, to, start: call.startedAt, end: call.endedAt }),
    row(
      kind === "note"
        ? weak("·")
        : badge(
            kind === "wait" ? (isRunning ? "waiting" : "waited") : state,
            kind === "wait" ? "weak" : undefined
          ),
      weak(`+${took(from - call.startedAt)}`),
      grow(wordsOf(step)),
      weak(time),
      weak(kind === "wait" ? "" : failureOf(step)),
      isRunning && kind === "wait" ? ends(step) : undefined
    )
  )
}

/** Why a call is where it is. @param {Call} call */
const whyOf = (call) => {
  const last = call.steps.at(-1)
  const failure = call.steps.findLast((step) => step.kind === "attempt" && step.state === "failed")
  const after = failure === undefined ? "" : `, after ${failureOf(failure)}`
  if (last?.kind === "wait" && last.state === "running") {
    return [grow(`${wordsOf(last)}${after}`), ends(last)]
  }
  const asked = call.steps.filter(({ kind, state }) => kind === "attempt" && state === "running")
  const who = asked.map(({ text }) => text).join(" and ")
  return [grow(who === "" ? "has begun" : `asks ${who}${after}`)]
}

/** @param {Call} call */
export const wordOf = (call) => {
  if (call.outcome !== "running") return call.outcome
  const last = call.steps.at(-1)
  if (last?.kind === "wait" && last.state === "running") return "waiting"
  return call.attempts > 1 ? "retrying" : "running"
}

/** The way of a call through its targets: `a ✗ b ✓`. @param {Call} call */
const wayOf = (call) =>
  call.steps
    .filter(({ kind }) => kind === "attempt")
    .map(({ state, text }) =>
      `${text}\u00a0${state === "answered" ? "✓" : state === "failed" ? "✗" : state === "overtaken" ? "(overtaken)" : ""}`.trim()
    )
    .join(" → ")

/** @param {Call} call */
export const callRow = (call) => {
  const key = `call-${call.call}-${call.startedAt}`
  const { endedAt } = call
  const time = endedAt !== undefined ? weak(took(endedAt - call.startedAt)) : age(call.startedAt, "for ")
  const why =
    endedAt === undefined
      ? whyOf(call)
      : [
          element(
            "span",
            { class: "grow message" },
            call.outcome === "failed" ? (call.message ?? "") : wayOf(call)
          )
        ]
  return element(
    "details",
    { "data-key": key },
    element(
      "summary",
      { "data-key": `${key}-summary` },
      row(
        badge(wordOf(call)),
        weak(`call ${call.call}`),
        weak(counted(call.attempts, "attempt")),
        time,
        ...why
      )
    ),
    axis((endedAt ?? page.now()) - call.startedAt),
    element(
      "ol",
      { class: "steps" },
      ...call.steps.map(stepRow(call)),
      call.omitted === 0 ? undefined : element("li", { class: "weak" }, `${call.omitted} steps are left out`)
    )
  )
}

// The sections below the calls: targets, circuits, tasks, the outbox, figures, and what operators did.
import { button } from "./actions.js"
import { callRow, wordOf } from "./calls.js"
import { bars, legend, strip } from "./charts.js"
import { age, at, badge, countdown, element, grow, isNew, list, replaced, row, weak } from "./elements.js"
import { page } from "./page.js"
import { clock, colourOf, counted, plain, seconds, took } from "./words.js"

/** @typedef {import("../PageState.ts").Activity} Activity */
/** @typedef {import("../PageState.ts").Circuit} Circuit */
/** @typedef {import("../PageState.ts").History} History */
/** @typedef {import("../PageState.ts").Letter} Letter */
/** @typedef {import("../PageState.ts").Target} Target */
/** @typedef {import("../PageState.ts").Task} Task */

/** @type {Activity} */
const nothing = { running: [], recent: [], circuits: [], alerts: [], minutes: [], histories: [], notices: [] }

/** Sections that have a place of their own on the page. */
const own = new Set(["activity", "targets", "circuits", "tasks", "runs", "outbox", "dead letters"])

/** Pictures of the last minutes are drawn again after this many milliseconds. */
const redrawn = 15_000

/** @template T @param {readonly T[] | unknown} value @returns {readonly T[]} */
const listOf = (value) => (Array.isArray(value) ? value : [])

/** @param {Target} target @param {History | undefined} history */
const wordOfTarget = ({ health, needsPerson, state }, history) =>
  needsPerson === true || state === "dead"
    ? "needs a person"
    : state === "open"
      ? "circuit open"
      : state === "ready" && history?.failingSince !== undefined
        ? "failed last"
        : state === "ready" && health === "slow"
          ? "slow"
          : state

/** @param {{ target: Target, history: History | undefined, next: number | null | undefined }} item */
const targetRow = ({ history, next, target }) => {
  const { advice, id, key, lastSuccessAt, message, model, needsPerson, provider, reason, state } = target
  const scopes = [...new Set(target.cooldowns.map(({ scope }) => scope))].join(", ")
  const isOut = state !== "ready"
  const last = history?.lastFailure
  const since = history?.failingSince
  const failed =
    last === undefined
      ? ""
      : `${plain(last.reason)}${last.status === undefined ? "" : ` (HTTP ${last.status})`}`
  const why =
    state === "open" && failed !== ""
      ? `${failed}; its circuit is open`
      : isOut
        ? (message ?? plain(reason ?? "out"))
        : failed && `${failed}; the next call tries it`
  return element(
    "div",
    {},
    row(
      badge(wordOfTarget(target, history)),
      grow(`${provider}/${model}${key === "" ? "" : ` · ${key}`}`),
      lastSuccessAt === null ? weak("no answer yet") : age(lastSuccessAt, "answered ", " ago"),
      !isOut && next ? countdown(next, "its limits let the next call through in ") : undefined,
      isOut
        ? button(`lift-${id}`, {
            text: "Try it again now",
            action: "lift",
            params: { target: id },
            done: `calls may go to ${id} again`
          })
        : undefined
    ),
    strip(history),
    why === ""
      ? undefined
      : row(
          grow(
            why,
            since === undefined ? "" : ` since ${clock(since)}`,
            scopes === "" ? "" : ` · covers the ${scopes}`
          ),
          isOut && needsPerson !== true ? countdown(next, "next try in ") : undefined
        ),
    needsPerson === true && advice ? element("strong", {}, advice) : undefined
  )
}

/** The targets behind a circuit, by the names that circuits have. @param {string} circuit */
const behind = (circuit) => {
  const targets = page.state?.sections.targets ?? []
  const isOwn = (/** @type {Target} */ { id, model, provider }) =>
    [provider, `${provider}/${model}`, id].includes(circuit)
  if (!targets.some(isOwn)) return "its calls are refused"
  const others = [
    ...new Set(targets.filter((one) => !isOwn(one) && one.state === "ready").map(({ provider }) => provider))
  ]
  return others.length === 0
    ? "no other target is left, so calls fail or wait"
    : `its calls go to ${others.join(", ")}`
}

/** @param {Circuit} one */
const circuitRow = ({ circuit, lastFailure, phase, until }) => {
  const operated = page.state?.operators.find(
    ({ action, subject }) => subject === circuit && (action === "trip" || action === "reset")
  )
  const byHand = phase !== "closed" && operated?.action === "trip"
  const params = { circuit }
  // One key for both: the focus stays where it is.
  const key = `circuit-${circuit}`
  /** @type {import("./actions.js").Doing} */
  const close = {
    text: "Close it: let calls through",
    action: "reset",
    params,
    done: `circuit ${circuit} is closed`
  }
  return row(
    badge(phase),
    grow(circuit),
    byHand
      ? weak(`opened by an operator at ${clock(operated.at)}`)
      : weak(lastFailure ? `last failure: ${plain(lastFailure)}` : ""),
    phase === "closed" ? undefined : countdown(until, "next probe in "),
    phase === "closed"
      ? button(key, {
          text: "Open the circuit",
          action: "trip",
          params,
          done: `circuit ${circuit} is open`,
          ask: `Open the circuit of ${circuit}? Until its next probe ${behind(circuit)}.`,
          undo: close
        })
      : button(key, close)
  )
}

/** The buttons of a task that waits for a person. A decision names the effect that the person has seen. @param {Task} task */
const decisions = ({ calls, decision, effect, task = "" }) => {
  const decide = (
    /** @type {string} */ key,
    /** @type {string} */ text,
    /** @type {unknown} */ verdict,
    /** @type {string} */ ask
  ) =>
    button(`${key}-${task}`, {
      text,
      action: "decide",
      params: { task, key: decision, verdict },
      done: `${text} (task ${task})`,
      ask
    })
  if (effect !== undefined) {
    return [
      weak(`${effect.tool} ${effect.params} · key ${effect.key}`),
      decide(
        "happened",
        "It happened",
        { _tag: "Happened" },
        `Task ${task} goes on as if ${effect.tool} had happened. It will not be done again.`
      ),
      decide(
        "did-not",
        "It did not",
        { _tag: "DidNot" },
        `Task ${task} does ${effect.tool} again. If it had happened, it happens twice.`
      )
    ]
  }
  if (calls === undefined) return []
  const what = calls.map(({ params, tool }) => `${tool} ${params}`).join(", ")
  return [
    weak(what),
    decide(
      "approve",
      "Approve",
      { _tag: "Approved", decisions: calls.map(() => true) },
      `Task ${task} will do: ${what}`
    ),
    decide(
      "reject",
      "Reject",
      { _tag: "Approved", decisions: calls.map(() => false) },
      `Task ${task} will not do: ${what}`
    )
  ]
}

/** The limit that a run will meet first. @param {Task["limits"]} limits */
const nearest = (limits) => {
  const [first] = (limits ?? []).toSorted((a, b) => b.used / b.of - a.used / a.of)
  return first === undefined
    ? undefined
    : weak(`${Math.round((100 * first.used) / first.of)} % of its limit ${first.limit}`)
}

/** @param {Task} task */
const taskRow = (task) => {
  const { endedAt, id, limits, reason, startedAt, state, tools, turns, until } = task
  return row(
    badge(plain(state), colourOf(state)),
    grow(`${id}${reason === undefined || reason === null ? "" : ` · ${reason}`}`),
    turns === undefined ? undefined : weak(`turn ${turns}, ${counted(tools ?? 0, "tool call")}`),
    nearest(limits),
    countdown(until, "goes on in "),
    startedAt === undefined || startedAt === null
      ? undefined
      : endedAt === undefined || endedAt === null
        ? age(startedAt, "for ")
        : weak(seconds(endedAt - startedAt)),
    ...decisions(task)
  )
}

/** @param {Letter} letter */
const letterRow = ({ detail, died, id, number, reason, state, subject }) =>
  row(
    badge(state),
    grow(`${subject} · ${id} · ${reason}: ${detail}`),
    age(Date.parse(died), "", " ago"),
    state === "dead"
      ? button(`replay-${number}`, {
          text: "Replay",
          action: "replay",
          params: { ids: [String(number)] },
          done: `event ${id} is sent again`
        })
      : undefined
  )

const renderOutbox = () => {
  const { outbox, "dead letters": letters } = page.state?.sections ?? {}
  const newest = listOf(letters?.newest)
  const hidden = (letters?.total ?? 0) - newest.length
  /** @type {{ data: unknown, row: () => Element | undefined }[]} */
  const rows = []
  for (const section of [outbox, letters]) {
    const error = section?.error
    if (error !== undefined)
      rows.push({ data: error, row: () => row(badge("raised"), grow(`The outbox cannot be read: ${error}`)) })
  }
  if (outbox?.backlog !== undefined) {
    const { backlog, bytes = 0, oldestAt } = outbox
    rows.push({
      data: outbox,
      row: () =>
        row(
          badge(backlog === 0 ? "empty" : "stored"),
          grow(`${counted(backlog, "event waits", "events wait")} for the broker`),
          weak(`${Math.ceil(bytes / 1024)} KiB`),
          typeof oldestAt === "number" ? age(oldestAt, "the oldest for ") : undefined
        )
    })
  }
  for (const letter of newest) rows.push({ data: letter, row: () => letterRow(letter) })
  if (hidden > 0) rows.push({ data: hidden, row: () => weak(`and ${hidden} more dead letters`) })
  list("outbox", rows, (one) => one.row())
}

/** @param {Activity} activity */
const renderMinutes = (activity) => {
  const { amplification, costUsd = 0, goodput, minutes } = activity
  const retrying = activity.running.filter((call) => wordOf(call) !== "running").length
  const data = [
    minutes,
    amplification,
    goodput,
    costUsd,
    activity.running.length,
    retrying,
    Math.floor(page.now() / redrawn)
  ]
  if (!isNew("minutes", data)) return
  const figure = (/** @type {string} */ name, /** @type {string} */ value) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value))
  const dollars = (/** @type {number} */ value) =>
    `$${value < 0.1 && value > 0 ? value.toPrecision(2) : value.toFixed(2)}`
  replaced(at("summary"), [
    figure("calls under way", String(activity.running.length)),
    figure("of them waiting or retrying", String(retrying)),
    figure("attempts per call", amplification?.toFixed(2) ?? "–"),
    figure("answered", goodput === undefined ? "–" : `${Math.round(goodput * 100)} %`),
    figure("cost so far", costUsd === 0 ? "–" : dollars(costUsd))
  ])
  replaced(at("charts"), [
    bars(
      "Calls a minute",
      minutes,
      [
        ["answered", ({ answered }) => answered],
        ["failed", ({ failed }) => failed]
      ],
      (value) => String(value)
    ),
    bars(
      "Time to the first token",
      minutes,
      [["running", ({ firstTokens, streamed }) => (streamed === 0 ? 0 : firstTokens / streamed)]],
      took
    ),
    ...(costUsd === 0
      ? []
      : [bars("Cost a minute", minutes, [["running", ({ costUsd }) => costUsd]], dollars)])
  ])
}

/** Sections of the program without a place of their own. */
const renderOther = () => {
  const other = Object.entries(page.state?.sections ?? {}).filter(([name]) => !own.has(name))
  at("more").hidden = other.length === 0
  if (!isNew("other", other)) return
  replaced(
    at("other"),
    other.map(([name, value]) =>
      element(
        "details",
        { "data-key": name },
        element("summary", {}, name),
        element("pre", {}, cut(JSON.stringify(value, null, 2)))
      )
    )
  )
}

/** @param {string} text */
const cut = (text) => (text.length > 20_000 ? `${text.slice(0, 20_000)}\n… the whole is at api/state` : text)

export const renderSections = () => {
  const { state } = page
  if (state === undefined) return
  const { operators, readiness, sections } = state
  const activity = { ...nothing, ...sections.activity }
  const tasks = [
    ...listOf(sections.tasks).map((task) => ({ ...task, task: task.id, id: `task ${task.id}` })),
    ...listOf(sections.runs).map((run) => ({ ...run, id: `run ${run.id}` }))
  ]
  const histories = new Map(activity.histories.map((one) => [one.target, one]))
  const drawn = Math.floor(page.now() / redrawn)
  const alerts = [
    ...readiness.reasons.map(({ name, reason }) => ({
      text: `Not ready: ${name}: ${reason}`,
      since: undefined
    })),
    ...activity.alerts.map(({ failures, key, since }) => ({
      text: `${counted(failures, "failure")} at ${key}`,
      since
    }))
  ]
  list(
    "targets",
    listOf(sections.targets).map((target) => ({
      target,
      history: histories.get(target.id),
      drawn,
      next: state.headline.nextTries[target.id]
    })),
    targetRow
  )
  if (at("legend").childElementCount === 0) at("legend").replaceChildren(...legend())
  list("running", activity.running, callRow, "No call is under way.")
  renderMinutes(activity)
  list("circuits", listOf(sections.circuits ?? activity.circuits), circuitRow)
  list("tasks", tasks, taskRow)
  renderOutbox()
  list("alerts", alerts, ({ since, text }) =>
    row(badge("raised"), grow(text), since === undefined ? undefined : age(since, "for "))
  )
  list("operators", operators, ({ action, at: time, outcome, subject }) =>
    row(
      weak(clock(time)),
      badge(outcome),
      grow(`an operator: ${action}${subject === undefined ? "" : ` ${subject}`}`),
      age(time, "", " ago")
    )
  )
  list("notices", activity.notices, ({ at: time, run, text }) =>
    row(age(time, "", " ago"), weak(run ?? ""), grow(text))
  )
  list("recent", activity.recent, callRow, "No call has ended yet.")
  renderOther()
}

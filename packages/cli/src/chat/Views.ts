/** The answers of the commands as lines of text. Pure: state in, lines out. */
import { Duration } from "effect"
import type { FailoverEvent, Targets } from "@outlast/agent"
import type { SafetyGuard } from "@outlast/agent"
import type { CircuitBreaker } from "@outlast/resilience"
import { deviationsOf, presets } from "../explain/Preset.ts"
import { presetNames } from "../explain/PresetName.ts"
import type { Preset } from "../explain/PresetName.ts"
import { definitions } from "./Command.ts"
import type { Journal, Stats } from "./Journal.ts"
import type { Story } from "./Why.ts"

type Lines = ReadonlyArray<string>
type Target = Targets.TargetStatus

/** Lines of columns, each as wide as its widest cell. */
const table = (rows: ReadonlyArray<ReadonlyArray<string>>): Lines => {
  const widths: Array<number> = []
  for (const row of rows) row.forEach((cell, i) => (widths[i] = Math.max(widths[i] ?? 0, cell.length)))
  return rows.map((row) => `  ${row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join("  ")}`.trimEnd())
}

/** Milliseconds in words: `350 ms`, `42 s`, `5 min`, `2 h`. */
export const time = (millis: number): string => {
  if (millis < 1_000) return `${Math.max(0, Math.round(millis))} ms`
  if (millis < 120_000) return `${Math.ceil(millis / 1_000)} s`
  return millis < 7_200_000 ? `${Math.round(millis / 60_000)} min` : `${Math.round(millis / 3_600_000)} h`
}

const backIn = (left: Duration.Duration | undefined): string =>
  left === undefined ? "until /reset" : `back in ${time(Duration.toMillis(left))}`

const count = (number: number): string =>
  number === Infinity ? "no limit" : Math.round(number).toLocaleString("en-US")

const plural = (number: number, word: string): string => `${number} ${word}${number === 1 ? "" : "s"}`

/** Each target with its state. `now` is Unix time in milliseconds. */
export const profiles = (targets: ReadonlyArray<Target>, now: number): Lines =>
  table(
    targets.map(({ target, state, availableIn, reason, lastSuccessAt }) => [
      target.id,
      state,
      lastSuccessAt === undefined ? "no answer yet" : `answered ${time(now - lastSuccessAt)} ago`,
      state === "ready" ? "" : `${reason ?? "unknown"}, ${backIn(availableIn)}`
    ])
  )

/** All open cooldowns, each once, and the targets that only a person can bring back. */
export const cooldowns = (targets: ReadonlyArray<Target>): Lines => {
  const rows = targets.flatMap(({ target, state, cooldowns, message }) =>
    cooldowns.length === 0 && state === "dead"
      ? [[target.id, "dead", message ?? ""]]
      : cooldowns.map(({ scope, availableIn, message }) => [target.id, scope, backIn(availableIn), message])
  )
  return rows.length === 0 ? ["No cooldowns: every target may be asked."] : table(rows)
}

/** The circuits by name. */
export const circuits = (
  statuses: ReadonlyArray<Pick<CircuitBreaker.Status, "circuit" | "phase" | "retryAfter" | "lastFailure">>
): Lines =>
  table(
    statuses.map(({ circuit, phase, retryAfter, lastFailure }) => [
      circuit,
      phase,
      retryAfter === undefined ? "" : `probe in ${time(Duration.toMillis(retryAfter))}`,
      lastFailure ?? ""
    ])
  )

/** The models in the order of fallback, with their keys. */
export const fallback = (targets: ReadonlyArray<Target>): Lines => {
  const models = Map.groupBy(targets, ({ target }) => `${target.provider}/${target.model}`)
  const next = targets.find(({ state }) => state === "ready")
  return table(
    [...models].map(([model, keys], i) => {
      const ready = keys.filter(({ state }) => state === "ready").length
      return [
        `${i + 1}.`,
        model,
        `${plural(keys.length, "key")}, ${ready} ready`,
        next !== undefined && keys.includes(next) ? "← asked next" : ""
      ]
    })
  )
}

/** The evidence of a failure, in the rows of `outlast explain`. */
const evidence = ({ reason, rule, status, retryAfter }: FailoverEvent.AttemptFailed) => [
  ["reason", reason],
  ["because", `rule ${rule}${status === undefined ? "" : `, HTTP ${status}`}`],
  ["wait", retryAfter === undefined ? "none was named" : `${time(retryAfter)}, says the provider`]
]

/** What keeps a target out now, and what to do about it. `known` has been shown. */
const now = ({ state, availableIn, message, advice }: Target, known: string | undefined) => [
  ["now", state === "ready" ? state : `${state}, ${backIn(availableIn)}`],
  ...(message === undefined || message === known ? [] : [["", message]]),
  ...(advice === undefined ? [] : [["to do", advice]])
]

/** The last failure or switch: what happened, its evidence, what the call did next, and when the target is back. */
export const why = (story: Story | undefined, targets: ReadonlyArray<Target>): Lines => {
  if (story === undefined) return ["No call has failed or switched yet. /simulate-failure makes one fail."]
  const { happened, failed, next } = story
  const target = targets.find(({ target }) => target.id === story.target)
  return [
    ...`${happened.charAt(0).toUpperCase()}${happened.slice(1)}`.split("\n"),
    ...table([
      ...(story.target === undefined ? [] : [["target", story.target]]),
      ...(failed === undefined ? [] : evidence(failed)),
      ...next.map((line, i) => [i === 0 ? "then" : "", line]),
      ...(target === undefined ? [] : now(target, failed?.message))
    ])
  ]
}

/** The counts of the chat so far. `maxTurns` is the limit of turns of one run. */
export const stats = (stats: Stats, maxTurns: number): Lines =>
  table([
    ["messages", count(stats.messages)],
    ["attempts", `${count(stats.attempts)} (${count(stats.failures)} failed)`],
    ["successes", count(stats.successes)],
    ["failures", `${plural(stats.gaveUp, "call")} after all recovery`],
    ["rotations", count(stats.rotations)],
    ["waits", `${count(stats.waits)} (${time(stats.waited)})`],
    ["compactions", `${count(stats.compactions)} (${count(stats.freed)} tokens freed)`],
    ["output limit", `raised ${stats.raises}×, continued ${stats.continuations}×`],
    ["tool calls", `${count(stats.toolCalls)} (${count(stats.blocked)} blocked)`],
    ["tokens", count(stats.tokens)],
    ["cost", `$${stats.costUsd.toFixed(4)}`],
    ["max iterations", count(maxTurns)]
  ])

/** The limits of a run, and what the last one used. */
export const guard = (report: SafetyGuard.Report | undefined): Lines => {
  if (report === undefined) return ["No run yet: send a message first."]
  const { counts, limits, blocked } = report
  const total = limits.totalTime === Infinity ? "" : ` active, ${time(limits.totalTime)} in total`
  return [
    "Last run:",
    ...table([
      ["tool calls", `${count(counts.toolCalls)} of ${count(limits.toolCalls)}`],
      ["events", `${count(counts.events)} of ${count(limits.events)}`],
      ["active time", `${time(counts.elapsed)} of ${time(limits.time)}${total}`],
      ["turns", `${count(counts.turns)} of ${count(limits.turns)}`],
      ...[...limits.tools].map(([tool, limit]) => [tool, `limit ${count(limit)}`])
    ]),
    blocked.length === 0 ? "No call was blocked." : `Blocked ${plural(blocked.length, "call")}:`,
    ...blocked.map(({ tool, pattern, message }) => `  ${tool} (${pattern}): ${message}`)
  ]
}

/** Lines of one view of the events. */
const shown = 20

export const events = ({ lines }: Journal): Lines =>
  lines.length === 0 ? ["No events yet."] : lines.slice(-shown)

export const help: Lines = [
  "A line without a slash is a message for the model. Ctrl-C cancels an answer.",
  ...table(definitions.map(({ name, argument, help }) => [`${name} ${argument}`.trimEnd(), help]))
]

/** The presets. The current one is marked. */
export const presetList = (current: Preset): Lines => [
  ...table(
    presetNames.map((name) => [
      name === current ? "*" : " ",
      name,
      presets[name].circuits === false ? "no circuits" : "circuits",
      `${plural(deviationsOf(name).length, "deviation")} from its document`
    ])
  ),
  "outlast explain --preset NAME says more about one."
]

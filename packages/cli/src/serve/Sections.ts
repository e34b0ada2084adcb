/** Sections of the status page. Pure: state in, JSON out. Times are Unix milliseconds. */
import { Duration, Predicate } from "effect"
import { SafetyGuard } from "@outlast/agent"
import { OutlastConfig } from "@outlast/agent/config"
import type { CallLimiter } from "@outlast/agent/limiter"
import type { CircuitBreaker } from "@outlast/resilience"
import { Tasks } from "@outlast/tasks"
import type { TaskStatus } from "@outlast/tasks"
import * as Report from "../tasks/Report.ts"

type State = TaskStatus["state"]

/** Tasks that are listed, beside those that wait for a person. */
export const maxTasks = 50

/** Characters of a text of a task. */
const maxText = 200

/** Calls of one task that a person can approve on the page. */
const maxCalls = 20

/** Parameters of a call, which a person needs for a decision. */
const paramsOf = (params: unknown): string => (JSON.stringify(params) ?? "").slice(0, maxText)

const untilIn = (state: State, since: number): number | null =>
  state._tag === "WaitingUntil"
    ? state.until
    : state._tag === "Retrying" && state.nextIn !== undefined
      ? since + state.nextIn
      : null

const doubtOf = (state: State) => {
  if (state._tag === "InDoubt") {
    const { at, key, params, tool } = state.effect
    return { effect: { key, tool, at, params: paramsOf(params) } }
  }
  if (state._tag !== "WaitingForApproval") return {}
  // A decision covers every call, so a list that is not whole offers none: the command line shows them all.
  if (state.calls.length > maxCalls) return {}
  return { calls: state.calls.map(({ params, tool }) => ({ tool, params: paramsOf(params) })) }
}

/** Tasks, those that wait for a person first. */
export const tasks = (list: ReadonlyArray<TaskStatus>) =>
  list.map(({ generation, id, restarts, since, state, submittedAt, task, version }) => ({
    id,
    agent: `${task}@${version}`,
    generation,
    restarts,
    state: state._tag,
    reason: Report.words(state).slice(0, maxText),
    until: untilIn(state, since),
    startedAt: submittedAt,
    endedAt: Report.hasEnded(state) ? since : null,
    decision: Tasks.decisionKey(state) ?? null,
    ...doubtOf(state)
  }))

const untilOf = (left: Duration.Duration | undefined, now: number): number | null =>
  left === undefined ? null : now + Math.ceil(Duration.toMillis(left))

const secondsOf = (at: number | null): number | null => (at === null ? null : Math.ceil(at / 1_000) * 1_000)

/** A value of a policy: a duration is a text, such as "10s". Functions are left out. */
const shown = (value: unknown): unknown => {
  if (Duration.isDuration(value)) return Duration.format(value)
  if (Array.isArray(value)) return value.map(shown)
  return Predicate.isObject(value)
    ? Object.fromEntries(Object.entries(value).map(([name, field]) => [name, shown(field)]))
    : value
}

/** What the settings come to, with the defaults. Texts of the policy are left out, and so is most of each row. */
export const configuration = (settings: OutlastConfig.OutlastConfig) => {
  const { notices: _, nudges: __, rows, wording: ___, ...policy } = OutlastConfig.policyOf(settings)
  const { wording: ____, ...compaction } = OutlastConfig.compactionOf(settings)
  return shown({
    enabled: settings.enabled ?? true,
    policy: {
      preset: settings.policy?.preset ?? "interactive",
      ...policy,
      rows: Object.fromEntries(
        Object.entries(rows).map(([name, { attempts, cooldown, then }]) => [
          name,
          { then, attempts, cooldown: cooldown?.initial }
        ])
      )
    },
    guard: guardOf(settings.guard ?? {}),
    compaction
  })
}

/** The limits with the defaults, which fill each missing field of a group. */
const guardOf = ({
  activeTime,
  subagents,
  totalTime,
  ...rest
}: NonNullable<OutlastConfig.OutlastConfig["guard"]>) => {
  const { defaults } = SafetyGuard
  return {
    ...defaults,
    ...rest,
    time: { active: activeTime ?? defaults.time.active, total: totalTime ?? defaults.time.total },
    subagents: { ...defaults.subagents, ...subagents }
  }
}

/** The rate limits of a target that are known: a key and a model share them. */
export const limits = (target: string, list: ReadonlyArray<CallLimiter.LimitStatus>, now: number) =>
  list.map(({ kind, limit, remaining, resetsIn, source, wait }) => ({
    target,
    kind,
    source,
    limit,
    remaining,
    // In whole seconds, and 0 where the next call may go now: the page draws a section again when it has changed.
    resetsAt: secondsOf(untilOf(resetsIn, now)),
    // Infinite: another call must end first.
    freeAt: wait === undefined ? 0 : Duration.isFinite(wait) ? secondsOf(untilOf(wait, now)) : null
  }))

/** The circuits by name. */
export const circuits = (list: ReadonlyArray<CircuitBreaker.Status>, now: number) =>
  list.map(({ circuit, lastFailure, phase, retryAfter }) => ({
    circuit,
    phase,
    until: untilOf(retryAfter, now),
    lastFailure: lastFailure ?? null
  }))

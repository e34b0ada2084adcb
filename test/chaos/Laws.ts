/** Laws of every run. Each returns what breaks it, one line each. */
import { Cause, Duration } from "effect"
import { Prompt } from "effect/ai"
import type { RecoveryPolicy } from "@outlast/agent"
import { Dialect, Portable, Provenance } from "@outlast/agent/conversation"
// oxlint-disable-next-line no-restricted-imports -- the rules of a legal conversation are written once, beside their own test
import { problems } from "../../packages/agent/test/conversation/legality.ts"
import type { Provider, Record } from "./Run.ts"
import { dialects, transcriptOf } from "./Run.ts"
import type { World } from "./World.ts"

type Law = (run: Record, world: World, policy: RecoveryPolicy.RecoveryPolicy) => ReadonlyArray<string>

/** Every run ends with an outcome or a typed failure, and never with a defect. */
const typed: Law = ({ exit }) => {
  if (exit._tag === "Success") return []
  return exit.cause.reasons.flatMap((reason) =>
    reason._tag === "Fail" && reason.error instanceof Error && "_tag" in reason.error
      ? reason.error._tag === "AgentFailed"
        ? []
        : [`failed with ${String(reason.error._tag)}`]
      : [`not typed: ${Cause.pretty(exit.cause)}`]
  )
}

/** The turns, the tool calls, the attempts of a call, and its waits. */
const withinLimits: Law = ({ exit, events }, world, policy) => {
  const found: Array<string> = []
  if (exit._tag === "Success") {
    const { turns, toolCalls } = exit.value
    if (turns > world.maxTurns) found.push(`${turns} turns`)
    if (toolCalls > (world.toolCalls ?? Infinity)) found.push(`${toolCalls} tool calls`)
  }
  const targets = 3 * world.keys
  const calls = Map.groupBy(
    events.filter((event) => event._tag === "AttemptStarted"),
    ({ call }) => call
  )
  for (const [number, attempts] of calls) {
    // The first attempt at another target after a refusal does not count.
    if (attempts.length > policy.maxAttempts + targets - 1)
      found.push(`call ${number}: ${attempts.length} attempts`)
    // Failed attempts also count against the deadline, so the waits alone never exceed it.
    const waited = attempts.reduce((sum, attempt) => sum + attempt.waited, 0)
    if (waited > Duration.toMillis(policy.deadline)) found.push(`call ${number}: waited ${waited} ms`)
  }
  return found
}

/** No payment begins twice. */
const onceOnly: Law = ({ paid }) => paid.filter((id, i) => paid.indexOf(id) !== i)

/** Each request follows the rules of its target, and each target can be sent the transcript. */
const legal: Law = ({ exit, requests }) => {
  const sent = requests.flatMap(({ provider, key = "", prompt }) => {
    const me = Provenance.of(refOf(provider, key))
    return problems(prompt, dialects[provider], me).map((problem) => `${provider} got ${problem}`)
  })
  const transcript = transcriptOf(exit)
  if (transcript === undefined) return [...sent, "no transcript"]
  const next = Prompt.concat(transcript.prompt, "Go on.")
  const all = { ...dialects, unknown: Dialect.defaults }
  const later = Object.entries(all).flatMap(([name, dialect]) => {
    const ref = refOf(name, "next")
    return problems(Portable.adapt(next, { ref, dialect }), dialect, Provenance.of(ref)).map(
      (problem) => `for ${name}: ${problem}`
    )
  })
  return [...sent, ...unpaired(transcript.prompt), ...later]
}

const refOf = (provider: Provider | string, key: string) => ({
  id: `${provider}/large#${key}`,
  provider,
  model: "large",
  endpoint: "",
  key
})

/** Calls of the transcript itself without exactly one result, and results without their call. */
const unpaired = ({ content }: Prompt.Prompt): ReadonlyArray<string> => {
  const open = new Set<string>()
  const found: Array<string> = []
  for (const message of content) {
    if (message.role === "system") continue
    if (message.content.length === 0) found.push("an empty message")
    if (message.role !== "tool" && open.size > 0) found.push(`no result: ${[...open].join()}`)
    for (const part of message.content) {
      if (typeof part === "string") continue
      if (part.type === "tool-call") open.add(part.id)
      if (part.type === "tool-result" && !open.delete(part.id)) found.push(`result of no call: ${part.id}`)
    }
  }
  return open.size > 0 ? [...found, `no result: ${[...open].join()}`] : found
}

/** Each request has its `AttemptStarted`, with its target and its time, and each `AttemptStarted` its request. */
const explained: Law = ({ events, requests }) => {
  const told = events.flatMap((event) =>
    event._tag === "AttemptStarted" ? [`${event.at} ${event.target.id}`] : []
  )
  const left = [...told]
  const silent = requests.flatMap(({ time, target }) => {
    const at = left.indexOf(`${time} ${target}`)
    if (at >= 0) left.splice(at, 1)
    return at >= 0 ? [] : [`no event for the request ${time} ${target}`]
  })
  return [...silent, ...left.map((line) => `no request for the event ${line}`)]
}

export const all = { typed, withinLimits, onceOnly, legal, explained }

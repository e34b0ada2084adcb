/** A toolkit, its handlers, and models that request its tools. */
import { Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import type { Prompt } from "effect/ai"
import { TestClock } from "effect/testing"
import { ResilienceEvents } from "@outlast/resilience"
import type { FaultPlan } from "@outlast/testing"
import { ScriptedModel } from "@outlast/testing"
import { Failover, RecoveryPolicy, SafetyGuard } from "@outlast/agent"

const { String: Text } = Schema
const Look = Tool.make("look_up", { parameters: Schema.Struct({ q: Text }), success: Text })
const Edit = Tool.make("edit_file", {
  parameters: Schema.Struct({ path: Text, content: Text }),
  success: Text
})
const Delegate = Tool.make("delegate", { parameters: Schema.Struct({ to: Text }), success: Text })
export const Kit = Toolkit.make(Look, Edit, Delegate)

type Handlers = Parameters<typeof Kit.of>[0]

/** A record of the calls, and handlers that add to it. Every result is different. */
export const tools = (own: Partial<Handlers> = {}) => {
  const ran: Array<string> = []
  const say = (what: string) => Effect.sync(() => `done ${what}, number ${ran.push(what)}`)
  const layer = Kit.toLayer({
    look_up: ({ q }) => say(q),
    edit_file: ({ path }) => say(path),
    delegate: ({ to }) => say(to),
    ...own
  })
  return { ran, layer }
}

export const looking = (...queries: ReadonlyArray<string>): FaultPlan.Answer => ({
  toolCalls: queries.map((q) => ({ name: "look_up", params: { q } }))
})

/** Requests something new in every turn, without end. */
export const endless: FaultPlan.FaultPlan = { answers: ({ turn }) => looking(`question ${words(turn)}`) }

/** Writes a number in words, because digits are ignored where volatile values are removed. */
export const words = (n: number): string =>
  [...String(n)]
    .map(
      (digit) =>
        ["nil", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"][Number(digit)]
    )
    .join(" ")

export const model = (plan: FaultPlan.FaultPlan, options: Partial<ScriptedModel.Options> = {}) =>
  ScriptedModel.make({ provider: "anthropic", model: "m", plan, ...options })

export const over = (target: ScriptedModel.ScriptedModel) =>
  Failover.layer([target], { policy: RecoveryPolicy.withoutJitter(RecoveryPolicy.interactive) })

export const recording = () => {
  const events: Array<ResilienceEvents.ResilienceEvent> = []
  const layer = ResilienceEvents.layerHandler((event) => Effect.sync(() => void events.push(event)))
  const of = (tag: string): ReadonlyArray<Readonly<Record<string, unknown>>> =>
    events.filter(({ _tag }) => _tag === tag).map((event) => ({ ...event }))
  return { events, layer, of }
}

export const stopOf = <A, E, R>(effect: Effect.Effect<A, E | SafetyGuard.SafetyStop, R>) =>
  Effect.flatMap(Effect.flip(effect), (error) =>
    error instanceof SafetyGuard.SafetyStop ? Effect.succeed(error) : Effect.die(error)
  )

/** True when every call is followed by its result, and every result has a call. */
export const isLegal = (prompt: Prompt.Prompt): boolean => {
  const open = new Set<string>()
  for (const { role, content } of prompt.content) {
    if (role === "tool") {
      for (const part of content) if (part.type === "tool-result" && !open.delete(part.id)) return false
    } else {
      if (open.size > 0) return false
      if (role === "assistant") for (const part of content) if (part.type === "tool-call") open.add(part.id)
    }
  }
  return open.size === 0
}

/** Runs everything that needs no time, then `n` seconds one by one. */
export const seconds = (n: number) =>
  Effect.gen(function* () {
    for (let i = 0; i < 40; i++) yield* TestClock.adjust(0)
    for (let i = 0; i < n; i++) yield* TestClock.adjust("1 second")
  })

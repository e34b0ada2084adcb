/** Ten situations of a program, as a reader of the status page meets them. Each is played on a real chain and page. */
import { Clock, Effect } from "effect"
import type { Layer, Scope } from "effect"
import type { RecoveryPolicy } from "@outlast/agent"
import type { GuardEvent } from "@outlast/agent/guard"
import { Host } from "@outlast/node"
import type { Ops } from "@outlast/node/ops"
import { ResilienceEvents } from "@outlast/resilience"
import type { FaultPlan } from "@outlast/testing"
import * as World from "./World.ts"

export interface Situation {
  readonly name: string
  readonly plan: FaultPlan.FaultPlan
  readonly policy?: RecoveryPolicy.RecoveryPolicy
  readonly level: Ops.Level
  /** Parts of the first lines, in their order. */
  readonly says: ReadonlyArray<RegExp>
  /** Brings the situation about, and ends when it can be seen. */
  readonly play: Effect.Effect<unknown, unknown, Needed>
}

type Needed = Layer.Success<ReturnType<typeof World.operated>> | Scope.Scope

const answers: FaultPlan.FaultPlan["answers"] = () => ({ text: "The Nile." })
const fine: FaultPlan.FaultPlan = { answers }

const fails = (key: string, status: number, headers?: Record<string, string>) => ({
  when: { key: `secret-of-${key}` },
  times: "always" as const,
  fault: { type: "status" as const, status, ...(headers === undefined ? {} : { headers }) }
})

const minutes = (count: number) => Effect.map(Clock.currentTimeMillis, (now) => now - count * 60_000)

/** A call that fails or waits goes on for as long as the situation is looked at. */
const call = Effect.forkScoped(Effect.ignore(World.call))

/** Calls until this many targets are out. */
const out = (count: number) =>
  Effect.ignore(Effect.timeout(World.call, "300 millis")).pipe(
    Effect.andThen(Effect.sleep("20 millis")),
    Effect.andThen(World.targetsOut),
    Effect.repeat({ until: (found) => found >= count })
  )

export const situations: ReadonlyArray<Situation> = [
  {
    name: "dead key",
    plan: { answers, faults: [fails("revoked", 401)] },
    level: "bad",
    says: [
      /anthropic \(key ANTHROPIC_API_KEY\): the key was refused \(HTTP 401\) since \d\d:\d\d/,
      /Set ANTHROPIC_API_KEY to a valid key/,
      /answered by .*claude/
    ],
    play: Effect.all([World.call, World.call])
  },
  {
    name: "overloaded",
    plan: { answers, faults: [fails("revoked", 529), fails("busy", 529)] },
    level: "warn",
    says: [
      /Calls are answered by openai\/gpt-4\.1/,
      /anthropic\/claude-sonnet-4-5: overloaded \(HTTP 529\); its circuit is open since/,
      /next try/
    ],
    play: out(2)
  },
  {
    name: "all out",
    plan: { answers, faults: [fails("revoked", 529), fails("busy", 529), fails("good", 401)] },
    level: "bad",
    says: [
      /No model can answer; next try/,
      /openai \(key OPENAI_API_KEY\): the key was refused \(HTTP 401\)/,
      /Set OPENAI_API_KEY to a valid key/,
      /overloaded/
    ],
    play: Effect.andThen(out(3), call)
  },
  {
    name: "circuit tripped by hand",
    plan: fine,
    level: "bad",
    says: [/An operator opened the circuit openai: it has been open since/, /next probe in/, /Close it/],
    play: Effect.gen(function* () {
      yield* World.call
      yield* World.operate("trip", { circuit: "openai" })
    })
  },
  {
    name: "broker down",
    plan: fine,
    level: "bad",
    says: [/The broker takes no events: 12 wait in the outbox since/, /Start the broker/],
    play: Effect.gen(function* () {
      yield* World.call
      yield* Host.section(
        "outbox",
        Effect.succeed({ backlog: 12, bytes: 9_000, oldestAt: yield* minutes(3) })
      )
      yield* Host.section("dead letters", Effect.succeed({ total: 0, newest: [] }))
    })
  },
  {
    name: "task in doubt",
    plan: fine,
    level: "bad",
    says: [
      /Task invoice-7 is in doubt: it is unknown whether send_invoice has happened/,
      /decide under Tasks/
    ],
    play: Effect.gen(function* () {
      yield* World.call
      const effect = { key: "e1", tool: "send_invoice", at: 0, params: '{"to":"a@example.com"}' }
      const startedAt = yield* minutes(4)
      const task = {
        id: "invoice-7",
        state: "InDoubt",
        reason: "send_invoice was cut off",
        decision: "d1",
        effect
      }
      yield* Host.section("tasks", Effect.succeed([{ ...task, startedAt, endedAt: null }]))
    })
  },
  {
    name: "guard stop",
    plan: fine,
    level: "warn",
    says: [/A run has been stopped by the guard \(reason: money\) since/, /Look at what it did/],
    play: Effect.andThen(
      World.call,
      ResilienceEvents.publishNow<GuardEvent.GuardStopped>({
        _tag: "GuardStopped",
        reason: "money",
        limit: 5,
        subject: undefined,
        counts: {
          events: 40,
          toolCalls: 31,
          turns: 9,
          tokens: 900_000,
          costUsd: 5,
          subagents: 0,
          blocked: 2,
          elapsed: 90_000,
          totalElapsed: 90_000,
          files: 0,
          lastFiles: []
        }
      })
    )
  },
  {
    name: "budget used up",
    plan: fine,
    level: "warn",
    says: [/The retry budget is used up/, /Too many attempts fail/],
    play: Effect.andThen(World.call, Host.section("retry budget", Effect.succeed({ paid: 0, reserve: 0 })))
  },
  {
    name: "slow first token",
    policy: World.hedged,
    plan: {
      answers,
      faults: [
        {
          when: { key: "secret-of-revoked", streaming: true },
          times: "always",
          fault: { type: "slow", delay: 4_000 }
        },
        {
          when: { key: "secret-of-busy", streaming: true },
          times: "always",
          fault: { type: "slow", delay: 4_000 }
        }
      ]
    },
    level: "warn",
    says: [/anthropic sends its first token late: a second model is asked, too/],
    play: Effect.all([World.stream, World.stream])
  },
  {
    name: "all well",
    plan: fine,
    level: "good",
    says: [/All is well: all 3 targets can answer/],
    play: World.call
  }
]

/**
 * The chain of the chat on fake providers: real clients over real HTTP to a server on this machine, which needs no key
 * and no network. The names of the keys are those of claw0's profiles.
 */
import { Effect, Redacted } from "effect"
import type { Scope } from "effect"
import { KeySource } from "@outlast/agent"
import type { ProviderModel } from "@outlast/agent"
import { Anthropic, OpenAi } from "@outlast/providers"
import { FakeProvider, FaultPlan } from "@outlast/testing"
import * as FakeModel from "./FakeModel.ts"

export type Chain = readonly [ProviderModel.TargetSpec, ...Array<ProviderModel.TargetSpec>]

const models = { main: "claude-sonnet-4-5", fallback: "gpt-4.1" } as const

const key = (name: string): KeySource.KeySource => KeySource.value(name, Redacted.make(name))

/** Starts the server. `pace` is the delay before each word in milliseconds. */
export const make = (pace: number): Effect.Effect<Chain, never, Scope.Scope> =>
  Effect.gen(function* () {
    const runner = yield* FaultPlan.start({ answers: FakeModel.answers })
    const plan: FaultPlan.Runner = {
      next: (request) =>
        Effect.map(runner.next(request), (reply) =>
          reply.type === "speech" ? { ...reply, delay: FakeModel.paceOf(request.messages, pace) } : reply
        )
    }
    const server = yield* FakeProvider.make({
      plan,
      windows: { [models.main]: FakeModel.window, [models.fallback]: FakeModel.window }
    })
    return [
      Anthropic.model(models.main, {
        baseUrl: server.baseUrl("anthropic"),
        keys: ["main-key", "backup-key", "emergency-key"].map(key)
      }),
      OpenAi.chatModel(models.fallback, { baseUrl: server.baseUrl("openai"), keys: [key("openai-key")] })
    ]
  })

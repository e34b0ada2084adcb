/** Runs the agent of a world in memory and in virtual time, and collects what the laws are about. */
import type { Exit } from "effect"
import { Cause, Effect, Layer, Logger, Option, Redacted } from "effect"
import { Agent, Failover, KeySource } from "@outlast/agent"
import type { EventLine, Outcome, RecoveryPolicy, Transcript } from "@outlast/agent"
import { AgentFailed } from "@outlast/agent/loop"
import { Dialects } from "@outlast/providers"
import { ResilienceEvents } from "@outlast/resilience"
import { FaultPlan, ScriptedModel } from "@outlast/testing"
import * as VirtualTime from "../scenarios/VirtualTime.ts"
import * as Worlds from "./World.ts"

/** The dialects of the three targets. */
export const dialects = {
  anthropic: Dialects.anthropic("large", {}),
  openai: Dialects.responses("large", {}),
  google: Dialects.google("large", {})
}
export type Provider = keyof typeof dialects

/** A request that reached a model. */
interface Request extends ScriptedModel.ScriptedRequest {
  readonly target: string
  readonly provider: Provider
}

export interface Record {
  readonly exit: Exit.Exit<Outcome.Outcome, unknown>
  /** In order of arrival. */
  readonly requests: ReadonlyArray<Request>
  readonly events: ReadonlyArray<EventLine.Event>
  /** The id of each payment that began. */
  readonly paid: ReadonlyArray<string>
}

/** The transcript of an outcome or a failure. */
export const transcriptOf = (exit: Record["exit"]): Transcript.Transcript | undefined =>
  exit._tag === "Success"
    ? exit.value.transcript
    : Option.getOrUndefined(AgentFailed.transcriptOf(exit.cause))

/** Fails with a defect if the run never ends, or leaves a fiber or a sleep behind. */
export const run = (world: Worlds.World, policy: RecoveryPolicy.RecoveryPolicy): Effect.Effect<Record> =>
  Effect.suspend(() => VirtualTime.stepped(recorded(world, policy)))

const recorded = (world: Worlds.World, policy: RecoveryPolicy.RecoveryPolicy) =>
  Effect.gen(function* () {
    const plan = yield* FaultPlan.start({ faults: Worlds.faultsOf(world), answers: Worlds.answers(world) })
    const model = (provider: Provider) =>
      ScriptedModel.make({
        provider,
        model: "large",
        plan,
        info: { dialect: dialects[provider] },
        keys: Array.from({ length: world.keys }, (_, i) => {
          const name = `${provider}_${i + 1}`
          return KeySource.value(name, Redacted.make(name))
        })
      })
    const models = [yield* model("anthropic"), yield* model("openai"), yield* model("google")] as const
    const events: Array<EventLine.Event> = []
    const watching = ResilienceEvents.layerHandler((event) =>
      // The program publishes events of these packages only.
      Effect.sync(() => void events.push(event as unknown as EventLine.Event))
    )
    const { paid, layer } = Worlds.paying()
    const options: Agent.Options<typeof Worlds.Kit.tools> = {
      prompt: "Pay the bills of this month.",
      toolkit: Worlds.Kit,
      maxTurns: world.maxTurns,
      limits: world.toolCalls === undefined ? undefined : { toolCalls: world.toolCalls },
      compaction: world.window === undefined ? undefined : { window: world.window },
      cancel: world.cancelled === undefined ? undefined : Effect.sleep(world.cancelled * 1_000)
    }
    const exit = yield* (world.streams ? Worlds.streamed(options) : Agent.run(options)).pipe(
      Effect.provide(Layer.provideMerge(Failover.layer(models, { policy }), watching)),
      Effect.provide([layer, Logger.layer([])]),
      Effect.exit
    )
    const requests = yield* Effect.forEach(models, (target) =>
      Effect.map(target.requests, (all) =>
        all.map((request): Request => ({
          ...request,
          // The name of a provider in this file.
          provider: target.provider as Provider,
          target: `${target.provider}/large#${request.key}`
        }))
      )
    )
    return { exit, requests: requests.flat(), events, paid }
  })

/** A run in readable lines, for the message of a failed law. */
export const printed = ({ exit, events, requests, paid }: Record): string =>
  [
    exit._tag === "Success" ? `${exit.value.status} ${exit.value.text}` : Cause.pretty(exit.cause),
    ...events.map((event) => JSON.stringify(event)),
    ...requests.map(({ time, target, reply }) => `request ${time} ${target} ${JSON.stringify(reply.fault)}`),
    `paid ${paid.join()}`
  ].join("\n")

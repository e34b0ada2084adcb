/** Chains over a raw server, for programs of effect/ai and of the AI SDK. */
import { Failover, KeySource } from "@outlast/agent"
import { Anthropic, OpenAiCompatible, toAiSdk } from "@outlast/providers"
import type { ServedModel } from "#providers/aisdk/ToAiSdk"
import type { Scope } from "effect"
import { Effect, Redacted } from "effect"
import type { RawServer } from "./RawServer.ts"
import { policy as hasty } from "../services/Hasty.ts"

const key = KeySource.value("K", Redacted.make("sk-0123456789abcdef"))

/** Chat Completions. */
export const chatTarget = ({ url }: RawServer) =>
  OpenAiCompatible.model({ name: "raw", baseUrl: `${url}/v1`, model: "m", keys: [key] })

/** Anthropic Messages. */
export const claudeTarget = ({ url }: RawServer) =>
  Anthropic.model("claude-sonnet-4-5", { baseUrl: `${url}/v1`, keys: [key] })

export const layerOf = (target: ReturnType<typeof chatTarget>) => Failover.layer([target], { policy: hasty })

/** A model of the AI SDK, which ends with the scope. */
export const served = (
  target: ReturnType<typeof chatTarget>
): Effect.Effect<ServedModel, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => toAiSdk(layerOf(target))),
    (model) => Effect.promise(() => model.dispose())
  )

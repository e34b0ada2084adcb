/** The state of one chat, shared by its commands and its answers. */
import type { Effect, Ref } from "effect"
import type { Prompt } from "effect/ai"
import type { SafetyGuard } from "@outlast/agent"
import type { SimulatedFailure } from "@outlast/testing"
import type { Chain } from "./FakeChain.ts"
import type { Journal } from "./Journal.ts"
import type { Model } from "./Model.ts"
import type { Terminal } from "./Terminal.ts"

export interface State {
  readonly terminal: Terminal
  /** Shows a line about the recovery, and keeps it for `/events`. */
  readonly note: (line: string) => Effect.Effect<void>
  readonly chain: Chain
  readonly simulated: SimulatedFailure.Service
  readonly model: Ref.Ref<Model>
  readonly journal: Ref.Ref<Journal>
  readonly conversation: Ref.Ref<Prompt.Prompt>
  /** What the guard says about the last run. */
  readonly report: Ref.Ref<SafetyGuard.Report | undefined>
}

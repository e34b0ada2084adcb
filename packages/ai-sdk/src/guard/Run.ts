/**
 * One run: a `generateText` or a `streamText` with its tools. What its model and its tools share.
 */
import type { LanguageModelV4Usage, SharedV4ProviderMetadata } from "@ai-sdk/provider"
import { LoopGuard } from "@outlast/agent/internal"
import type { Instructions, ModelMessage } from "ai"
import { AsyncLocalStorage } from "node:async_hooks"
import type { GuardOptions } from "./GuardOptions.ts"
import { SafetyStop } from "./SafetyStop.ts"

/** A tool call that runs. Runs that begin inside it are its sub-agents. */
interface ToolCall {
  readonly inside: LoopGuard.Running["inside"]
  readonly runs: Array<LoopGuard.LoopGuard>
}

const current = new AsyncLocalStorage<ToolCall>()

export interface Options {
  readonly settings: LoopGuard.Settings
  readonly onStop: GuardOptions["onStop"]
  readonly publish: LoopGuard.Publish
  /** Keeps the conversation within its window. `undefined`: no compaction. */
  readonly fitting: Fitting | undefined
}

/** Compaction of one run. */
export interface Fitting {
  /** The messages of a step, as far as they fit. */
  readonly fit: (
    messages: Array<ModelMessage>,
    instructions: Instructions | undefined
  ) => Promise<Array<ModelMessage>>
  /** Told of the end of each answer. */
  readonly answered: (ended: Ended) => void
}

/** The end of an answer. */
export interface Ended {
  readonly usage: LanguageModelV4Usage
  readonly providerMetadata?: SharedV4ProviderMetadata | undefined
}

export class Run {
  readonly guard: LoopGuard.LoopGuard
  readonly onStop: GuardOptions["onStop"]
  readonly fitting: Fitting | undefined
  #stop: SafetyStop | undefined

  constructor({ settings, onStop, publish, fitting }: Options) {
    const around = current.getStore()
    this.guard = new LoopGuard.LoopGuard(settings, around?.inside, publish)
    this.onStop = onStop
    this.fitting = fitting
    around?.runs.push(this.guard)
  }

  /** The error of the stopped run, always the same one; `undefined` while the run may go on. */
  get stopped(): SafetyStop | undefined {
    const facts = this.#stop === undefined ? this.guard.stopped : undefined
    if (facts !== undefined) this.#stop = new SafetyStop(facts)
    return this.#stop
  }
}

/** A tool call of a run, with the place of the runs inside it. */
export class Inside {
  readonly #call: ToolCall

  constructor(inside: LoopGuard.Running["inside"]) {
    this.#call = { inside, runs: [] }
  }

  /** Runs a part of the tool. */
  run<A>(part: () => A): A {
    return current.run(this.#call, part)
  }

  /** Ends the runs that began inside the tool. */
  end(): void {
    for (const run of this.#call.runs) run.leave()
  }
}

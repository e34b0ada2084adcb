/**
 * The guard of one run in a loop that is not Outlast's, such as that of the AI SDK.
 *
 * The loop asks before each model call ({@link LoopGuard.ask}) and each tool call ({@link LoopGuard.call}), and reports
 * each answer. All of it is synchronous. There is no fiber to interrupt: a stopped run ends
 * because nothing more is admitted, and its loop has to end it at the next model call. So a tool or a model call that
 * runs when the time is up still ends by itself.
 *
 * **Composition.** The same limits, loops and tree as `SafetyGuard`: a run that begins inside a tool call is a
 * sub-agent and shares the limits of the runs around it. The caller passes {@link Running.inside}, because there is no
 * fiber to find it by.
 */
import { Clock, Context, Effect } from "effect"
import { Prompt, Response } from "effect/ai"
import type { ResilienceEvents } from "@outlast/resilience"
import { ActiveTime, Activity } from "../conversation/ActiveTime.ts"
import type { AnyFiber } from "./Branch.ts"
import { Branch } from "./Branch.ts"
import type { Settings } from "./Guard.ts"
import { Guard } from "./Guard.ts"
import type { Call, Result } from "./GuardedConversation.ts"
import type { GuardEvent } from "./GuardEvent.ts"
import type { StopFacts } from "./StopReason.ts"

export type { Settings } from "./Guard.ts"
export type { Call, Result } from "./GuardedConversation.ts"
export { settingsOf } from "./GuardSettings.ts"

/** A tool call that may run. */
export interface Running {
  readonly _tag: "Running"
  /** Hint for the model, which repeats itself. Deliver it with the result of the call. */
  readonly nudge: string | undefined
  /** Place of the runs that this call starts. */
  readonly inside: Branch
  /** Call it once, with the result as the model reads it. */
  readonly ended: (result: Result) => void
}

/** A tool call that must not run. Its result is `message`. */
export interface Blocked {
  readonly _tag: "Blocked"
  readonly message: string
}

export type Admission = Running | Blocked | { readonly _tag: "Stopped" }

/** Publishes an event without its time. */
export type Publish = (event: ResilienceEvents.NoTime<GuardEvent>) => void

export class LoopGuard {
  readonly #guard: Guard
  readonly #branch: Branch
  readonly #leave: () => void
  readonly #publish: Publish
  /** Nudges for the next model call that no result of a tool carries. */
  #nudges: ReadonlyArray<string> = []

  /** Begins a run, inside a tool call of another run if there is one. */
  constructor(settings: Settings, inside: Branch | undefined, publish: Publish) {
    const guard = new Guard(settings, Effect.runSync(Clock.Clock), (model) => model)
    const program = placedAt(inside?.context, (fiber) => Branch.program(guard, fiber))
    const agent = placedAt(undefined, (fiber) => program.agent(fiber))
    this.#guard = guard
    // Without a branch of its own, the limits allow no more agents: nothing is admitted.
    this.#branch = agent ?? program
    this.#publish = publish
    this.#leave = () => {
      if (agent !== undefined) program.leave(agent)
      program.end()
      guard.close()
    }
  }

  /** The reason for the stop, of this run or of one around it. `undefined` while the run may go on. */
  get stopped(): StopFacts | undefined {
    const guard = this.#branch.guards.find(({ stopped }) => stopped !== undefined)
    if (guard?.stopped !== undefined) return { ...guard.stopped, counts: guard.counts }
    return this.#branch.isOpen
      ? undefined
      : {
          reason: "subagents",
          detail: "the tool call that started this run has ended.",
          counts: this.#guard.counts
        }
  }

  /** Admits a model call. */
  ask(): boolean {
    const isAdmitted = this.#branch.ask(Prompt.empty)
    this.#tell()
    return isAdmitted
  }

  /** Takes the nudges for the admitted model call. */
  takeNudges(): ReadonlyArray<string> {
    const nudges = [...this.#nudges, ...this.#branch.takeNudges()]
    this.#nudges = []
    return nudges
  }

  /** Reads the next characters of an answer, or of its thinking. Returns false when the run is stopped. */
  said(delta: string): boolean {
    return this.#heard(Response.makePart("text-delta", { id: "", delta }))
  }

  /** Counts a tool call that the provider runs itself. Returns false when the run is stopped. */
  ranByProvider(name: string): boolean {
    return this.#heard(Response.makePart("tool-call", { id: "", name, params: {}, providerExecuted: true }))
  }

  #heard(part: Response.AnyPart): boolean {
    const goesOn = this.#branch.said([part])
    this.#tell()
    return goesOn
  }

  /** Counts the tokens and US dollars of an answer. The next model call checks them. */
  spent(tokens: number, costUsd: number): void {
    this.#branch.spent(tokens, costUsd)
  }

  /** Admits a tool call. */
  call(call: Call): Admission {
    const admission = this.#branch.admit(call)
    const { name: tool } = call
    if (admission._tag === "Block") {
      const { message, evidence } = admission.warning
      const refusal = { pattern: evidence.pattern, message }
      if (this.#branch.deny(call, refusal, { encoded: message, isFailure: true })) {
        this.#publish({ _tag: "GuardBlocked", tool, ...refusal })
        return { _tag: "Blocked", message }
      }
    }
    if (admission._tag !== "Run") {
      this.#tell()
      return { _tag: "Stopped" }
    }
    const nudge = admission.warning?.message
    if (admission.warning !== undefined) {
      const { pattern, count } = admission.warning.evidence
      this.#publish({ _tag: "GuardNudged", tool, pattern, count })
    }
    // The result of this call carries its nudge.
    this.#nudges = [...this.#nudges, ...this.#branch.takeNudges().filter((text) => text !== nudge)]
    const inside = placedAt(undefined, (fiber) => this.#branch.tool(fiber))
    const finished = this.#branch.called(call)
    return {
      _tag: "Running",
      nudge,
      inside,
      ended: (result) => {
        inside.end()
        finished(result)
        this.#branch.observe(call, result)
      }
    }
  }

  /** Context of a model call, which reports its waits, and its end. */
  asking(): { readonly context: Context.Context<never>; readonly end: () => void } {
    const activity = new Activity([this.#branch.activity])
    return { context: Context.make(ActiveTime, activity), end: () => activity.end() }
  }

  /** Ends the run. A sub-agent has to end with the tool call that started it. */
  leave(): void {
    this.#leave()
  }

  /** Publishes the stop of this run's own guard once. */
  #tell(): void {
    const { stopped, counts } = this.#guard
    if (stopped === undefined || !this.#guard.tell()) return
    const { reason, limit, subject } = stopped
    this.#publish({ _tag: "GuardStopped", reason, limit, subject, counts })
  }
}

/** Makes a branch at a place in the tree. A branch is found by the context of a fiber. */
const placedAt = <A>(context: Context.Context<never> | undefined, make: (fiber: AnyFiber) => A): A => {
  const made = Effect.withFiber((fiber) => Effect.sync(() => make(fiber)))
  return Effect.runSync(context === undefined ? made : Effect.provideContext(made, context))
}

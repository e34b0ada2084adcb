/**
 * A place in the tree of what runs under guards: a program, an agent, or a tool.
 *
 * It goes with the fiber, so that whatever an agent starts is below it: an agent that a tool runs is a sub-agent and
 * shares the limits. Each branch has a conversation, and what the loop detectors have seen of it. A guard inside a
 * guard makes a branch with both: what happens there is counted by all, and none admits more than it has left.
 *
 * **Composition.** `GuardedModel` and `GuardedTool` ask it before anything happens, and tell it what came of it. Every
 * answer of it is one synchronous piece.
 */
import { Context, Effect, Option } from "effect"
import type { Fiber } from "effect"
import type { Prompt, Response } from "effect/ai"
import { answeredBy } from "../conversation/Answered.ts"
import { ActiveTime, Activity } from "../conversation/ActiveTime.ts"
import * as CallGuard from "../failover/CallGuard.ts"
import type { BlockedCall } from "./BlockedCalls.ts"
import { kindOf } from "./Guard.ts"
import type { Guard } from "./Guard.ts"
import { GuardedConversation } from "./GuardedConversation.ts"
import type { Call, Result } from "./GuardedConversation.ts"
import type { GuardState, Step } from "./GuardState.ts"
import * as State from "./GuardState.ts"
import type { Bounds } from "./Limits.ts"
import * as LoopDetector from "./LoopDetector.ts"

export type AnyFiber = Fiber.Fiber<unknown, unknown>

/** Where a fiber runs, as its context says: by a token, because what runs there can read its context. */
const Current: Context.Reference<object | undefined> = Context.Reference<object | undefined>(
  "@outlast/agent/guard/Branch",
  { defaultValue: () => undefined }
)

/** What the tokens stand for. One that was made up stands for nothing. */
const branches = new WeakMap<object, Branch>()

/** Where fibers run that carry out a program: what they have in their context, they can take out of it. */
const places = new WeakMap<AnyFiber, Branch>()

/** This fiber carries out a program, or a tool. Returns what puts it back to where it was. */
export const place = (fiber: AnyFiber, branch: Branch): (() => void) => {
  const before = places.get(fiber)
  places.set(fiber, branch)
  const release = CallGuard.hold(fiber, aroundOf(branch))
  return () => {
    release()
    if (before === undefined) places.delete(fiber)
    else places.set(fiber, before)
  }
}

/** Where a fiber runs; outside of a guard nowhere. A token of somewhere else leads nobody out of where it was placed. */
export const branchOf = (fiber: AnyFiber): Branch | undefined => {
  const token = fiber.getRef(Current)
  const told = token === undefined ? undefined : branches.get(token)
  const place = places.get(fiber)
  if (told === undefined || place === undefined) return told ?? place
  return place.guards.every((guard) => told.guards.includes(guard)) ? told : place
}

/** Where this fiber runs. */
export const current: Effect.Effect<Branch | undefined> = Effect.withFiber((fiber) =>
  Effect.succeed(branchOf(fiber))
)

export type Warning = Exclude<LoopDetector.Verdict, { readonly _tag: "Ok" }>

/** Why a call is not run; the message is for the model. */
export type Refusal = Pick<BlockedCall, "pattern" | "message">

export type Admission =
  | { readonly _tag: "Run"; readonly warning: Warning | undefined }
  | { readonly _tag: "Block"; readonly warning: Warning }
  | { readonly _tag: "Stopped" }

/** An agent of the tree. */
interface Agent {
  /** By guard: how many agents stand above it in what that guard runs. */
  readonly depths: ReadonlyArray<number>
  /** Sub-agents of it that run now. */
  running: number
}

/** How deep an agent stands that this one runs; the first one in what a guard runs is at 0. */
const depthBelow = (agent: Agent | undefined, guard: number): number => (agent?.depths[guard] ?? -1) + 1

/** Each once. A program without types may give anything; what is no name could not be counted. */
const filesIn = (given: unknown): ReadonlyArray<string> => {
  if (given === undefined || given === null) return none
  const files: ReadonlyArray<unknown> = Array.isArray(given) ? given : [given]
  if (files.every((file) => typeof file === "string")) return files.length > 1 ? [...new Set(files)] : files
  const wrong = files.find((file) => typeof file !== "string")
  throw new TypeError(`it gave ${kindOf(wrong)}, not the name of a file`)
}

const aroundOf = (branch: Branch): CallGuard.Around | undefined => branch.guards[0]?.around

/** What tells a fiber where it is. A map is quicker made than three contexts. */
export const placed = (branch: Branch, activity: Activity): Context.Context<never> =>
  Context.makeUnsafe(
    new Map<string, unknown>([
      [Current.key, branch.token],
      [CallGuard.CallGuard.key, aroundOf(branch)],
      [ActiveTime.key, activity]
    ])
  )

/** Nudges that wait for the next call of the model, at most. */
const maxNudges = 8
/** Characters of an answer that are kept, and after how many new ones they are looked at. */
const tail = 16_000
const stride = 1_000

const stopped: Admission = { _tag: "Stopped" }
const none: ReadonlyArray<never> = []

export class Branch {
  /** All that it stands under, outermost first; never none. */
  readonly guards: ReadonlyArray<Guard>
  readonly context: Context.Context<never>
  /** Says nothing to whoever has it. */
  readonly token: object = Object.freeze({})
  #conversation: GuardedConversation | undefined
  /** The guards at whose top its conversation will be, as soon as it begins. */
  #topOf: ReadonlyArray<Guard> = none
  readonly activity: Activity
  /** The nearest agent, this one included. */
  readonly #agent: Agent | undefined
  #standIn: Agent | undefined
  #turn = 0
  #nudges: ReadonlyArray<string> = []
  /** By guard. */
  readonly #loops: Array<LoopDetector.State | undefined> = []
  #text = ""
  #unlooked = 0

  /** By guard: the agent that runs the program that it guards. */
  readonly #owners: ReadonlyArray<Agent | undefined>
  /** The tool calls that it is inside of, itself included. */
  readonly #calls: ReadonlyArray<object>
  #call: object | undefined

  private constructor(
    guards: ReadonlyArray<Guard>,
    owners: ReadonlyArray<Agent | undefined>,
    activity: Activity,
    agent: Agent | undefined,
    calls: ReadonlyArray<object>
  ) {
    this.guards = guards
    this.#owners = owners
    this.#calls = calls
    this.activity = activity
    this.#agent = agent
    branches.set(this.token, this)
    this.context = placed(this, activity)
  }

  /** Of a program that begins to run under a guard, in a fiber that may be under others. */
  static program(guard: Guard, fiber: AnyFiber): Branch {
    const outer = branchOf(fiber)
    const around = fiber.getRef(ActiveTime)
    const parents = around === undefined ? [guard.activity] : [around, guard.activity]
    guard.open()
    const activity = new Activity(parents)
    const branch =
      outer === undefined
        ? new Branch([guard], [undefined], activity, undefined, [])
        : outer.guards.includes(guard)
          ? new Branch(outer.guards, outer.#owners, activity, outer.#agent, outer.#calls)
          : new Branch(
              [...outer.guards, guard],
              [...outer.#owners, outer.#agent],
              activity,
              outer.#agent,
              outer.#calls
            )
    branch.#topOf = branch.#runBy(branch.#agent)
    return branch
  }

  /** Of an agent that begins, or `undefined` if there may be no more. */
  agent(fiber: AnyFiber): Branch | undefined {
    const parent = this.#agent
    const running = parent?.running ?? 0
    const admitted = this.#admit((bounds, state, i) =>
      State.admitAgent(bounds, state, { depth: depthBelow(parent, i), running })
    )
    if (!admitted) return undefined
    if (parent !== undefined) parent.running++
    const depths = this.guards.map((_, i) => depthBelow(parent, i))
    const branch = new Branch(
      this.guards,
      this.#owners,
      this.#part(fiber),
      { depths, running: 0 },
      this.#calls
    )
    branch.#topOf = this.#runBy(parent)
    return branch
  }

  /** The guards whose program this agent runs, and no agent below it. */
  #runBy(agent: Agent | undefined): ReadonlyArray<Guard> {
    return this.guards.filter((_, i) => this.#owners[i] === agent)
  }

  /** An agent has ended: `branch` was made by {@link agent}. */
  leave(branch: Branch): void {
    if (this.#agent !== undefined) this.#agent.running--
    branch.end()
  }

  /** Of a tool that begins to run. */
  tool(fiber: AnyFiber): Branch {
    const call = {}
    for (const guard of this.guards) guard.begin(call)
    const calls = [...this.#calls, call]
    const branch = new Branch(this.guards, this.#owners, this.#part(fiber), this.#caller(), calls)
    branch.#call = call
    return branch
  }

  /** Of what the host does between two steps: a conversation of its own, and waiting but for what it starts. */
  apart(fiber: AnyFiber): Branch {
    const branch = new Branch(this.guards, this.#owners, this.#part(fiber), this.#caller(), this.#calls)
    branch.activity.park()
    return branch
  }

  /**
   * The agent whose tools run. A guarded program that has none of its own stands for one when it calls tools: to the
   * guards whose program it is. To those outside of it that is the agent that they know.
   */
  #caller(): Agent | undefined {
    const agent = this.#agent
    if (agent !== this.#owners.at(-1)) return agent
    const depths = this.guards.map((_, i) =>
      this.#owners[i] === agent ? depthBelow(agent, i) : (agent?.depths[i] ?? 0)
    )
    return (this.#standIn ??= { depths, running: 0 })
  }

  end(): void {
    this.activity.end()
    if (this.#call !== undefined) for (const guard of this.guards) guard.end(this.#call)
  }

  /** A call inside of it will not end. */
  held(): void {
    for (const guard of this.guards) for (const call of this.#calls) guard.end(call)
  }

  #part(fiber: AnyFiber): Activity {
    return new Activity([fiber.getRef(ActiveTime) ?? this.activity])
  }

  /** Most tools have none. */
  get #own(): GuardedConversation {
    return (this.#conversation ??= new GuardedConversation())
  }

  /** It begins with the first call of the model or of a tool: until then the one before it is at the top. */
  #begun(): GuardedConversation {
    for (const guard of this.#topOf) guard.top = this.#own
    this.#topOf = none
    return this.#own
  }

  /** No guard above it is stopped, and none has ended. */
  get isOpen(): boolean {
    for (const guard of this.guards) if (!guard.isOpen) return false
    return true
  }

  get isStopped(): boolean {
    return this.guards.some((guard) => guard.stopped !== undefined)
  }

  /** Registers a fiber with all guards. Returns what takes it out again. */
  enter(fiber: AnyFiber): () => void {
    const [only] = this.guards
    if (only !== undefined && this.guards.length === 1) return only.enter(fiber)
    const all = this.guards.map((guard) => guard.enter(fiber))
    return () => {
      for (const leave of all) leave()
    }
  }

  /** Counted by all guards, or by none. The outermost one that has no room stops. */
  #admit(step: (bounds: Bounds, state: GuardState, guard: number) => Step): boolean {
    if (!this.isOpen) return false
    const [only] = this.guards
    if (only !== undefined && this.guards.length === 1) {
      const [tripped, state] = only.consider((bounds, state) => step(bounds, state, 0))
      if (tripped === undefined) only.commit(state)
      else only.trip(tripped)
      return tripped === undefined
    }
    const next: Array<GuardState> = []
    for (const [i, guard] of this.guards.entries()) {
      const [tripped, state] = guard.consider((bounds, state) => step(bounds, state, i))
      if (tripped !== undefined) {
        guard.trip(tripped)
        return false
      }
      next.push(state)
    }
    for (const [i, guard] of this.guards.entries()) {
      const state = next[i]
      if (state !== undefined) guard.commit(state)
    }
    return true
  }

  // ---------------------------------------------------------------------------
  // The model
  // ---------------------------------------------------------------------------

  /** Before a call of the model. What the one that is too many would have asked belongs to the conversation. */
  ask(prompt: Prompt.Prompt): boolean {
    if (!this.isOpen) return false
    const admitted = this.#admit(State.admitCall)
    this.#begun().asked(prompt)
    if (!admitted) return false
    this.#turn++
    this.#text = ""
    this.#unlooked = 0
    return true
  }

  /** What the model is to be told with its next call. */
  takeNudges(): ReadonlyArray<string> {
    const nudges = this.#nudges
    this.#nudges = []
    return nudges
  }

  /** Parts of an answer, as they come. False when the guard has stopped at them. */
  said(parts: ReadonlyArray<Response.AnyPart>): boolean {
    this.#own.said(parts)
    for (const part of parts) if (!this.#count(part)) return false
    return this.isOpen
  }

  /** The answer so far is void. */
  unsaid(): void {
    this.#text = ""
    this.#own.unsaid()
  }

  #count(part: Response.AnyPart): boolean {
    switch (part.type) {
      case "text":
        return this.#admit(State.admitEvent) && this.#read(part.text, true)
      case "text-delta":
        return this.#read(part.delta, false)
      case "text-start":
      case "reasoning":
      case "reasoning-start":
      case "file":
      case "source":
        return this.#admit(State.admitEvent)
      case "tool-call":
        // One that the provider runs itself cannot be held back, only counted.
        return part.providerExecuted !== true || this.#admitTool(part.name, none)
      case "finish": {
        const { inputTokens, outputTokens } = part.usage
        const tokens = (inputTokens.total ?? 0) + (outputTokens.total ?? 0)
        const costUsd = Option.getOrUndefined(answeredBy([part]))?.costUsd ?? 0
        for (const guard of this.guards) guard.spent(tokens, costUsd)
        return true
      }
      default:
        return true
    }
  }

  /** Looks whether an answer repeats itself. */
  #read(text: string, whole: boolean): boolean {
    this.#text = (this.#text + text).slice(-tail)
    this.#unlooked += text.length
    if (!whole && this.#unlooked < stride) return true
    this.#unlooked = 0
    for (const guard of this.guards) {
      const { loops } = guard.settings
      if (loops === undefined) continue
      const verdict = LoopDetector.text(loops, this.#text)
      if (verdict._tag === "Stop") {
        guard.trip({ reason: verdict.kind, detail: verdict.message })
        return false
      }
      if (verdict._tag !== "Ok") this.#nudge(verdict.message)
    }
    return true
  }

  #nudge(message: string): void {
    if (!this.#nudges.includes(message)) this.#nudges = [...this.#nudges, message].slice(-maxNudges)
  }

  // ---------------------------------------------------------------------------
  // Tools
  // ---------------------------------------------------------------------------

  /** Before a tool runs. */
  admit(call: Call): Admission {
    const judged = this.judge(call)
    if (judged._tag !== "Run") return judged
    const files = this.#filesOf(call)
    if (files === undefined || !this.#admitTool(call.name, files)) return stopped
    if (judged.warning !== undefined) this.#nudge(judged.warning.message)
    return judged
  }

  /** Whether a call would go round in circles. One that is not blocked is not yet admitted. */
  judge(call: Call): Admission {
    if (!this.isOpen) return stopped
    let warning: Warning | undefined
    for (const [i, guard] of this.guards.entries()) {
      const { loops } = guard.settings
      if (loops === undefined) continue
      const state = this.#loops[i] ?? LoopDetector.initial
      const asked = guard.asking("The loop detector", () =>
        LoopDetector.before(loops, state, this.#looped(call))
      )
      if (asked === undefined) return stopped
      const verdict = asked.value
      if (verdict._tag === "Stop") {
        const { kind, message } = verdict
        guard.trip({ reason: kind, subject: call.name, detail: message })
        return stopped
      }
      if (verdict._tag === "Block") {
        this.#loops[i] = LoopDetector.refused(loops, state, this.#looped(call))
        return { _tag: "Block", warning: verdict }
      }
      if (verdict._tag === "Nudge") warning ??= verdict
    }
    return { _tag: "Run", warning }
  }

  /** A call is in the conversation from now on; call what it gives with the result. */
  called(call: Call): (result: Result) => void {
    return this.#begun().called(call)
  }

  /** A call is not run, and its result says why. False when the guard has stopped at that. */
  deny(call: Call, why: Refusal, result: Result): boolean {
    const blocked: BlockedCall = { tool: call.name, turn: this.#turn, ...why }
    if (!this.#admit((bounds, state) => State.admitDenial(bounds, state, blocked))) return false
    this.called(call)(result)
    return true
  }

  /** A tool has ended, or was refused. */
  observe(call: Call, { encoded, isFailure }: Result): void {
    for (const [i, guard] of this.guards.entries()) {
      const { loops } = guard.settings
      if (loops === undefined) continue
      const state = this.#loops[i] ?? LoopDetector.initial
      const observed = guard.asking("The loop detector", () =>
        LoopDetector.observe(loops, state, {
          ...this.#looped(call),
          result: encoded,
          failed: isFailure
        })
      )
      if (observed !== undefined) this.#loops[i] = observed.value
    }
  }

  #looped({ name, params, hints }: Call): LoopDetector.Call {
    return { turn: this.#turn, tool: name, arguments: params, hints }
  }

  #admitTool(tool: string, files: ReadonlyArray<string>): boolean {
    return this.#admit((bounds, state) => State.admitTool(bounds, state, { tool, files }))
  }

  /** The innermost guard knows the tools best. */
  #filesOf({ name, params }: Call): ReadonlyArray<string> | undefined {
    const guard = this.guards.at(-1)
    const given = guard?.asking("`fileOf`", () =>
      filesIn(guard.settings.fileOf({ tool: name, arguments: params }))
    )
    return given?.value
  }
}

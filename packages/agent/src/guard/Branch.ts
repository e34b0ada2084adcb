/**
 * A node in the tree of everything that runs under guards: a program, an agent, or a tool.
 *
 * A branch follows its fiber, so everything that an agent starts is below it. An agent that a tool runs is a
 * sub-agent and shares the limits. Each branch has a conversation and the state of its loop detectors. A guard inside
 * a guard makes a branch with both: each counts everything, and each must admit it.
 *
 * **Composition.** `GuardedModel` and `GuardedTool` ask the branch before each step and report the result to it. Each
 * of its answers is synchronous.
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

/**
 * Branch of a fiber, in its context. Holds a token instead of the branch, because guarded code can read its context.
 */
const Current: Context.Reference<object | undefined> = Context.Reference<object | undefined>(
  "@outlast/agent/guard/Branch",
  { defaultValue: () => undefined }
)

/** Branches by token. A forged token has no entry. */
const branches = new WeakMap<object, Branch>()

/** Branches of the fibers that run a program. A program can change its context, but not this map. */
const places = new WeakMap<AnyFiber, Branch>()

/** Assigns a fiber to a branch. Returns a function that restores the previous assignment. */
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

/**
 * The branch of a fiber; `undefined` outside of a guard. A token cannot move a fiber out of the guards where it was
 * placed.
 */
export const branchOf = (fiber: AnyFiber): Branch | undefined => {
  const token = fiber.getRef(Current)
  const told = token === undefined ? undefined : branches.get(token)
  const place = places.get(fiber)
  if (told === undefined || place === undefined) return told ?? place
  return place.guards.every((guard) => told.guards.includes(guard)) ? told : place
}

/** The branch of the current fiber. */
export const current: Effect.Effect<Branch | undefined> = Effect.withFiber((fiber) =>
  Effect.succeed(branchOf(fiber))
)

export type Warning = Exclude<LoopDetector.Verdict, { readonly _tag: "Ok" }>

/** Reason why a call does not run. The message is for the model. */
export type Refusal = Pick<BlockedCall, "pattern" | "message">

export type Admission =
  | { readonly _tag: "Run"; readonly warning: Warning | undefined }
  | { readonly _tag: "Block"; readonly warning: Warning }
  | { readonly _tag: "Stopped" }

/** An agent in the tree. */
interface Agent {
  /** Depth of this agent below the program of each guard, by index of the guard. */
  readonly depths: ReadonlyArray<number>
  /** Number of its sub-agents that run now. */
  running: number
}

/** Depth of an agent that this one runs. The first agent under a guard has depth 0. */
const depthBelow = (agent: Agent | undefined, guard: number): number => (agent?.depths[guard] ?? -1) + 1

/**
 * Returns each file name once. Throws for anything that is not a name, because untyped programs may return any value.
 */
const filesIn = (given: unknown): ReadonlyArray<string> => {
  if (given === undefined || given === null) return none
  const files: ReadonlyArray<unknown> = Array.isArray(given) ? given : [given]
  if (files.every((file) => typeof file === "string")) return files.length > 1 ? [...new Set(files)] : files
  const wrong = files.find((file) => typeof file !== "string")
  throw new TypeError(`it gave ${kindOf(wrong)}, not the name of a file`)
}

const aroundOf = (branch: Branch): CallGuard.Around | undefined => branch.guards[0]?.around

/** Context that assigns a fiber to a branch. Building one map is faster than three contexts. */
export const placed = (branch: Branch, activity: Activity): Context.Context<never> =>
  Context.makeUnsafe(
    new Map<string, unknown>([
      [Current.key, branch.token],
      [CallGuard.CallGuard.key, aroundOf(branch)],
      [ActiveTime.key, activity]
    ])
  )

/** Maximum number of nudges that wait for the next model call. */
const maxNudges = 8

const stopped: Admission = { _tag: "Stopped" }
const none: ReadonlyArray<never> = []

export class Branch {
  /** All guards above this branch, outermost first; at least one. */
  readonly guards: ReadonlyArray<Guard>
  readonly context: Context.Context<never>
  /** Opaque key of this branch. */
  readonly token: object = Object.freeze({})
  #conversation: GuardedConversation | undefined
  /** Guards whose top conversation will be this one, once it begins. */
  #topOf: ReadonlyArray<Guard> = none
  readonly activity: Activity
  /** The nearest agent, including this branch. */
  readonly #agent: Agent | undefined
  #standIn: Agent | undefined
  #turn = 0
  #nudges: ReadonlyArray<string> = []
  /** State of the loop detector of each guard, by index of the guard. */
  readonly #loops: Array<LoopDetector.State | undefined> = []
  #text = LoopDetector.noText
  #isTold = false

  /** Agent that runs the guarded program of each guard, by index of the guard. */
  readonly #owners: ReadonlyArray<Agent | undefined>
  /** Tool calls that contain this branch, including itself. */
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

  /** Creates the branch of a program under a guard. The fiber may already be under other guards. */
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

  /** Creates the branch of an agent. Returns `undefined` when the limits allow no more agents. */
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

  /** Guards whose program runs this agent directly, without another agent in between. */
  #runBy(agent: Agent | undefined): ReadonlyArray<Guard> {
    return this.guards.filter((_, i) => this.#owners[i] === agent)
  }

  /** Ends the branch of an agent, made by {@link agent}. */
  leave(branch: Branch): void {
    if (this.#agent !== undefined) this.#agent.running--
    branch.end()
  }

  /** Creates the branch of a tool that begins to run. */
  tool(fiber: AnyFiber): Branch {
    const call = {}
    for (const guard of this.guards) guard.begin(call)
    const calls = [...this.#calls, call]
    const branch = new Branch(this.guards, this.#owners, this.#part(fiber), this.#caller(), calls)
    branch.#call = call
    return branch
  }

  /**
   * Creates a branch for the host, e.g. for a permission hook. It has its own conversation. Its time is waiting time,
   * except for the agents and models that it starts.
   */
  apart(fiber: AnyFiber): Branch {
    const branch = new Branch(this.guards, this.#owners, this.#part(fiber), this.#caller(), this.#calls)
    branch.activity.park()
    return branch
  }

  /**
   * The agent whose tools run. When a guarded program calls tools without an agent, a stand-in takes its place for
   * the guards of that program. Outer guards see the agent that they know.
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

  /** A call inside this branch will never end, so stop waiting for the tool calls around it. */
  held(): void {
    for (const guard of this.guards) for (const call of this.#calls) guard.end(call)
  }

  #part(fiber: AnyFiber): Activity {
    return new Activity([fiber.getRef(ActiveTime) ?? this.activity])
  }

  /** Created on first use, because most tools have no conversation. */
  get #own(): GuardedConversation {
    return (this.#conversation ??= new GuardedConversation())
  }

  /**
   * Marks the conversation as the top one of its guards. It begins with the first call of a model or a tool; until
   * then the previous one stays at the top.
   */
  #begun(): GuardedConversation {
    for (const guard of this.#topOf) guard.top = this.#own
    this.#topOf = none
    return this.#own
  }

  /** True while all guards are open: none stopped, none closed. */
  get isOpen(): boolean {
    for (const guard of this.guards) if (!guard.isOpen) return false
    return true
  }

  get isStopped(): boolean {
    return this.guards.some((guard) => guard.stopped !== undefined)
  }

  /** Registers a fiber with all guards. Returns a function that removes it. */
  enter(fiber: AnyFiber): () => void {
    const all = this.guards.map((guard) => guard.enter(fiber))
    return () => {
      for (const leave of all) leave()
    }
  }

  /** Counts a step in all guards or in none. The outermost guard without room stops. */
  #admit(step: (bounds: Bounds, state: GuardState, guard: number) => Step): boolean {
    if (!this.isOpen) return false
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

  /** Admits a call of the model. The conversation records the prompt even of a rejected call. */
  ask(prompt: Prompt.Prompt): boolean {
    if (!this.isOpen) return false
    const admitted = this.#admit(State.admitCall)
    this.#begun().asked(prompt)
    if (!admitted) return false
    this.#turn++
    this.#text = LoopDetector.noText
    this.#isTold = false
    return true
  }

  /** Takes the nudges for the next model call. */
  takeNudges(): ReadonlyArray<string> {
    const nudges = this.#nudges
    this.#nudges = []
    return nudges
  }

  /** Counts parts of an answer as they arrive. Returns false when a guard has stopped. */
  said(parts: ReadonlyArray<Response.AnyPart>): boolean {
    this.#own.said(parts)
    for (const part of parts) if (!this.#count(part)) return false
    return this.isOpen
  }

  /** Counts the tokens and US dollars of an answer. */
  spent(tokens: number, costUsd: number): void {
    for (const guard of this.guards) guard.spent(tokens, costUsd)
  }

  /** Discards the answer so far. */
  unsaid(): void {
    this.#text = LoopDetector.noText
    this.#own.unsaid()
  }

  #count(part: Response.AnyPart): boolean {
    switch (part.type) {
      case "text":
      case "reasoning":
        return this.#admit(State.admitEvent) && this.#read(part.text)
      case "text-delta":
      case "reasoning-delta":
        return this.#read(part.delta)
      case "text-start":
      case "reasoning-start":
      case "file":
      case "source":
        return this.#admit(State.admitEvent)
      case "tool-call":
        // A call that the provider runs itself cannot be blocked, only counted.
        return part.providerExecuted !== true || this.#admitTool(part.name, none)
      case "finish": {
        const { inputTokens, outputTokens } = part.usage
        const tokens = (inputTokens.total ?? 0) + (outputTokens.total ?? 0)
        this.spent(tokens, Option.getOrUndefined(answeredBy([part]))?.costUsd ?? 0)
        return true
      }
      default:
        return true
    }
  }

  /** Checks whether an answer, or its thinking, repeats itself. The model is told once about each answer. */
  #read(text: string): boolean {
    this.#text = LoopDetector.read(this.#text, text)
    for (const guard of this.guards) {
      const { loops } = guard.settings
      if (loops === undefined) continue
      const verdict = LoopDetector.text(loops, this.#text)
      if (verdict._tag === "Stop") {
        guard.trip({ reason: verdict.kind, detail: verdict.message })
        return false
      }
      if (verdict._tag === "Ok" || this.#isTold) continue
      this.#isTold = true
      this.#nudge(verdict.message)
    }
    return true
  }

  #nudge(message: string): void {
    if (!this.#nudges.includes(message)) this.#nudges = [...this.#nudges, message].slice(-maxNudges)
  }

  // ---------------------------------------------------------------------------
  // Tools
  // ---------------------------------------------------------------------------

  /** Admits a tool call: checks loops and limits, and counts it. */
  admit(call: Call): Admission {
    const judged = this.judge(call)
    if (judged._tag !== "Run") return judged
    const files = this.#filesOf(call)
    if (files === undefined || !this.#admitTool(call.name, files)) return stopped
    if (judged.warning !== undefined) this.#nudge(judged.warning.message)
    return judged
  }

  /** Checks a call for loops, without admitting it. */
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

  /** Adds a call to the conversation. Pass the result to the returned function. */
  called(call: Call): (result: Result) => void {
    return this.#begun().called(call)
  }

  /** Records a call that does not run, with a result that says why. Returns false when a guard has stopped. */
  deny(call: Call, why: Refusal, result: Result): boolean {
    const blocked: BlockedCall = { tool: call.name, turn: this.#turn, ...why }
    if (!this.#admit((bounds, state) => State.admitDenial(bounds, state, blocked))) return false
    this.called(call)(result)
    return true
  }

  /** Passes the result of a call, or its refusal, to the loop detectors. */
  observe(call: Call, { encoded, isFailure }: Result): void {
    for (const [i, guard] of this.guards.entries()) {
      const { loops } = guard.settings
      if (loops === undefined) continue
      const state = this.#loops[i] ?? LoopDetector.initial
      const observed = guard.asking("The loop detector", () =>
        LoopDetector.observe(loops, state, {
          ...this.#looped(call),
          result: encoded,
          failed: isFailure,
          at: guard.counts.totalElapsed
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

  /** Asks the innermost guard, which knows the tools best. */
  #filesOf({ name, params }: Call): ReadonlyArray<string> | undefined {
    const guard = this.guards.at(-1)
    const given = guard?.asking("`fileOf`", () =>
      filesIn(guard.settings.fileOf({ tool: name, arguments: params }))
    )
    return given?.value
  }
}

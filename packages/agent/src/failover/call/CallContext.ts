/**
 * The facts of one call, which stay as they are: chain, number, fiber, clock, deadline, output limits, and the targets
 * in the order that this call prefers.
 *
 * `CallRun` makes one per call. `CallRequest`, `CallAdmission`, `CallOutcome` and `CallReport` read it.
 */
import { Clock, Context, MutableRef, Random } from "effect"
import type { Fiber } from "effect"
import type { LanguageModel } from "effect/ai"
import { Deadline } from "@outlast/resilience"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Chain, Compact, Target } from "../chain/Chain.ts"
import type { Snapshot } from "../decide/CallState.ts"
import * as Order from "../decide/Order.ts"
import * as Facts from "../decide/OrderFacts.ts"
import * as OutputLimit from "../decide/OutputLimit.ts"
import * as EventLoop from "../target/EventLoop.ts"
import * as ConversationKey from "./ConversationKey.ts"

/**
 * Shortens the conversation of a call inside an agent run. `Agent` provides it, where it compacts. An answer that has
 * filled the window is then continued in the same call.
 */
export const RunCompact: Context.Reference<Compact | undefined> = Context.Reference<Compact | undefined>(
  "@outlast/agent/failover/call/CallContext/RunCompact",
  { defaultValue: () => undefined }
)

export class CallContext {
  readonly chain: Chain
  /** Counts the calls of the chain from 1. */
  readonly number: number
  /** The program reads a stream. */
  readonly streams: boolean
  /** The fiber that makes the call. */
  readonly fiber: Fiber.Fiber<unknown, unknown>
  readonly clock: Clock.Clock
  /** When the program's own time limit is over, in monotonic milliseconds; `Infinity` without one. */
  readonly deadline: number
  /** The output limits of the program and the policy. */
  readonly range: OutputLimit.Range
  /** The limit that earlier calls of this agent run were raised to. */
  readonly raised: OutputLimit.Raised | undefined
  /** Shortens the conversation when an answer fills the window, where the chain cannot. */
  readonly runCompact: Compact | undefined
  /** Identifies the conversation, where the order of the chain asks for it. */
  readonly conversation: string | undefined
  /** The targets of the chain, preferred ones first. */
  readonly targets: ReadonlyArray<Target>
  readonly #isLive: boolean
  readonly #random: Context.Service.Shape<typeof Random.Random>

  constructor(
    chain: Chain,
    options: LanguageModel.ProviderOptions,
    streams: boolean,
    fiber: Fiber.Fiber<unknown, unknown>
  ) {
    this.chain = chain
    this.number = MutableRef.incrementAndGet(chain.calls)
    this.streams = streams
    this.fiber = fiber
    this.clock = fiber.getRef(Clock.Clock)
    this.#isLive = EventLoop.isLive(this.clock)
    this.#random = fiber.getRef(Random.Random)
    const deadline = fiber.getRef(Deadline.Deadline)
    this.deadline = deadline === undefined ? Infinity : Number(deadline) / 1_000_000
    const { truncation } = chain.policy
    const limit = fiber.getRef(OutputLimit.OutputLimit)
    this.range = OutputLimit.range(limit, truncation === false ? undefined : truncation.start)
    this.raised = fiber.getRef(OutputLimit.RunLimit)
    this.runCompact = fiber.getRef(RunCompact)
    const { order, memory, targets } = chain
    this.conversation = Order.wantsConversation(order) ? ConversationKey.of(options.prompt) : undefined
    this.targets =
      order === Order.inOrder
        ? targets
        : Order.arrange(order, targets, memory.facts ?? Facts.empty, {
            number: this.number,
            draw: this.draw(),
            now: this.now(),
            streams,
            conversation: this.conversation
          })
  }

  /** Monotonic milliseconds. */
  now(): number {
    return Number(this.clock.monotonicTimeNanosUnsafe()) / 1_000_000
  }

  /** Milliseconds in which the event loop stood still so far. No time limit of a provider counts them. */
  get lost(): number {
    return this.#isLive ? EventLoop.lost() : 0
  }

  /** A random number in [0, 1). */
  draw(): number {
    return this.#random.nextDoubleUnsafe()
  }

  /** The target of an action. The machine chooses among these targets only. */
  targetOf({ id }: TargetRef): Target {
    const { targets } = this.chain
    return targets.find(({ ref }) => ref.id === id) ?? targets[0]
  }

  /**
   * The chain as it is now; `mayRetry`: the retry budget allows an attempt. `isFull`: an answer has filled the window, so
   * that the compaction of the run may shorten the conversation, too.
   */
  snapshot(now: number, mayRetry: boolean, isFull = false): Snapshot {
    const { dead, memory, compact } = this.chain
    return {
      now,
      deadline: this.deadline,
      targets: this.targets,
      dead,
      cooldowns: MutableRef.get(memory.cooldowns),
      mayRetry,
      canCompact: compact !== undefined || (isFull && this.runCompact !== undefined),
      streaks: memory.streaks,
      answered: memory.answeredAt,
      flying: memory.flying
    }
  }
}

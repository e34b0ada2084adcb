/**
 * Generates random calls for the model test of `CallState`: policies over all settings, chains, surroundings, and a
 * world that answers each action with an event that can follow it. The world counts time, money and attempts on its
 * own.
 */
import { Duration } from "effect"
import * as fc from "fast-check"
import { isContinuing } from "#agent/failover/decide/AnswerSoFar"
import * as CallState from "#agent/failover/decide/CallState"
import * as Cooldown from "#agent/failover/decide/Cooldown"
import * as OutputLimit from "#agent/failover/decide/OutputLimit"
import * as RecoveryPolicy from "#agent/failover/decide/RecoveryPolicy"
import { isSending } from "#agent/failover/decide/Sending"
import * as FailoverReason from "#agent/failure/reasons/FailoverReason"
import { ProviderFailure } from "#agent/failure/reasons/ProviderFailure"
import { idOf } from "#agent/conversation/TargetRef"
import * as Sweeps from "../../../../test/sweeps.ts"

// -----------------------------------------------------------------------------
// Failures
// -----------------------------------------------------------------------------

const overflow = fc
  .option(fc.record({ limit: fc.constant(200_000), requested: fc.integer({ min: 150_000, max: 260_000 }) }), {
    nil: undefined
  })
  .map((sizes) => new FailoverReason.ContextOverflow(sizes === undefined ? {} : { ...sizes, output: 64_000 }))

const reason: fc.Arbitrary<FailoverReason.FailoverReason> = fc.oneof(
  fc.boolean().map((permanent) => new FailoverReason.Auth({ permanent })),
  fc.boolean().map((local) => new FailoverReason.Timeout({ phase: "total", local })),
  fc.constantFrom("request" as const, "response" as const).map((side) => new FailoverReason.Format({ side })),
  fc
    .constantFrom(4_096, 8_192, 32_768)
    .map((outputLimit) => new FailoverReason.Format({ side: "request", outputLimit })),
  fc.constant(new FailoverReason.RateLimit({ liftable: false })),
  fc.constant(new FailoverReason.ContextOverflow({ limit: 128_000, output: 65_535 })),
  overflow,
  fc.constant(new FailoverReason.Format({ side: "request", media: true })),
  fc.constant(new FailoverReason.Format({ side: "request", media: true, thinking: true })),
  fc.constantFrom(
    new FailoverReason.Billing(),
    new FailoverReason.RateLimit(),
    new FailoverReason.Overloaded(),
    new FailoverReason.ServerError(),
    new FailoverReason.Network(),
    new FailoverReason.PermanentNetwork(),
    new FailoverReason.ModelNotFound(),
    new FailoverReason.ContentPolicy(),
    new FailoverReason.Cancelled(),
    new FailoverReason.Unknown()
  )
)

export const failed = (reason: FailoverReason.FailoverReason, retryAfter?: number): ProviderFailure =>
  new ProviderFailure({
    reason,
    evidence: { rule: "test", signal: "local", depth: 0 },
    detail: "",
    ...(retryAfter === undefined ? {} : { retryAfter: Duration.millis(retryAfter) })
  })

const failure = fc
  .tuple(reason, fc.option(fc.integer({ min: 0, max: 400_000 }), { nil: undefined }))
  .map(([reason, retryAfter]) => failed(reason, retryAfter))

// -----------------------------------------------------------------------------
// Policies
// -----------------------------------------------------------------------------

const ratio = fc.double({ min: 0, max: 1, noNaN: true })
const midStream = fc.constantFrom<RecoveryPolicy.MidStream>("continue", "fail", "restart")

/** Random changes of one row of a policy. */
const rowChange = fc.record(
  {
    attempts: fc.integer({ min: 1, max: 5 }),
    pool: fc.constantFrom<RecoveryPolicy.Row["pool"]>("shared", "own"),
    repeatsBeforeEquivalent: fc.integer({ min: 0, max: 3 }),
    switchAfter: fc.integer({ min: 1, max: 3 }),
    to: fc.constantFrom<RecoveryPolicy.Row["to"]>("next", "other-model", "other-dialect", ["m2"]),
    targets: fc.integer({ min: 1, max: 3 }),
    retryAfter: fc.constantFrom<RecoveryPolicy.Row["retryAfter"]>("wins", "minimum", "ignored"),
    worthWaiting: fc.boolean(),
    nudge: fc.constant("Again, please."),
    midStream
  },
  { requiredKeys: [] }
)

/** The default rows, some of them changed. */
const rows = fc
  .dictionary(fc.constantFrom(...Object.keys(RecoveryPolicy.interactive.rows)), rowChange, { maxKeys: 6 })
  .map((changes) =>
    // Object.entries forgets the key type; the keys are those of the rows.
    Object.fromEntries(
      Object.entries<RecoveryPolicy.Row>(RecoveryPolicy.interactive.rows).map(([name, row]) => [
        name,
        { ...row, ...changes[name] }
      ])
    )
  ) as fc.Arbitrary<RecoveryPolicy.RecoveryPolicy["rows"]>

const truncation = fc.record({
  start: fc.constantFrom(undefined, 8_000),
  raiseTo: fc.integer({ min: 1, max: 100_000 }),
  raises: fc.integer({ min: 0, max: 2 }),
  continuations: fc.integer({ min: 0, max: 5 }),
  poorGains: fc.integer({ min: 1, max: 3 }),
  minGain: fc.integer({ min: 0, max: 1_000 })
})

const policy = fc
  .record({
    rows,
    maxAttempts: fc.integer({ min: 1, max: 12 }),
    deadline: fc.integer({ min: 0, max: 300_000 }),
    patience: fc.integer({ min: 0, max: 60_000 }),
    maxCost: fc.option(fc.double({ min: 0.1, max: 5, noNaN: true }), { nil: undefined }),
    maxCompactions: fc.integer({ min: 0, max: 3 }),
    counters: fc.constantFrom<RecoveryPolicy.RecoveryPolicy["counters"]>("call", "target"),
    probe: fc.constantFrom(false as const, RecoveryPolicy.interactive.probe),
    lastResort: fc.boolean(),
    sharedBackoff: fc.boolean(),
    whenAllOut: fc.constantFrom<RecoveryPolicy.RecoveryPolicy["whenAllOut"]>("wait", "probe", "fail"),
    midStream,
    truncation: fc.oneof(fc.constant(false as const), truncation),
    retryAfterJitter: ratio
  })
  .map(({ deadline, patience, ...rest }): RecoveryPolicy.RecoveryPolicy => ({
    ...RecoveryPolicy.interactive,
    ...rest,
    deadline: Duration.millis(deadline),
    patience: Duration.millis(patience)
  }))

// -----------------------------------------------------------------------------
// Chains and surroundings
// -----------------------------------------------------------------------------

const target = fc
  .record({
    provider: fc.constantFrom("p", "q"),
    model: fc.constantFrom("m1", "m2"),
    endpoint: fc.constantFrom("e1", "e2"),
    key: fc.constantFrom("k1", "k2"),
    contextWindow: fc.constantFrom(undefined, 100_000, 200_000),
    maxOutputTokens: fc.constantFrom(undefined, 16_000, 64_000),
    price: fc.constantFrom(undefined, { input: 1, output: 10 }),
    renewable: fc.boolean()
  })
  .map(({ contextWindow, maxOutputTokens, price, renewable, ...ref }): CallState.TargetView => ({
    ref: { ...ref, id: `${idOf(ref)}@${ref.endpoint}` },
    info: { contextWindow, maxOutputTokens, price },
    renewable
  }))

const targets = fc.uniqueArray(target, { minLength: 1, maxLength: 4, selector: ({ ref }) => ref.id })

const surroundings = fc.record({
  deadline: fc.oneof(fc.constant(Infinity), fc.integer({ min: 0, max: 200_000 })),
  canCompact: fc.boolean(),
  /** Tokens of the retry budget. */
  budget: fc.constantFrom(0, 2, Infinity),
  call: fc.record({
    structured: fc.boolean(),
    rewindable: fc.boolean(),
    providerTools: fc.boolean(),
    midStream: fc.option(midStream, { nil: undefined }),
    outputLimit: fc.record({
      start: fc.constantFrom<number | undefined>(undefined, 4_000, 8_000),
      max: fc.constantFrom(Infinity, 8_000, 32_000)
    })
  })
})

/** The world's reaction to an action, if it fits the action, and the changes of time and of other calls. */
const turn = fc.record({
  /** End of an attempt. A delayed attempt can be taken away, or its refusal foreseen. */
  outcome: fc.oneof(
    { weight: 5, arbitrary: fc.constant("failed" as const) },
    { weight: 3, arbitrary: fc.constant("cut" as const) },
    { weight: 1, arbitrary: fc.constant("kept away" as const) }
  ),
  failure,
  commit: fc.oneof(
    { weight: 9, arbitrary: fc.constantFrom<CallState.Commit>("nothing", "reasoning", "text") },
    { weight: 1, arbitrary: fc.constant<CallState.Commit>("tool") }
  ),
  gain: fc.integer({ min: 0, max: 2_000 }),
  input: fc.option(fc.integer({ min: 0, max: 200_000 }), { nil: undefined }),
  inToolCall: fc.boolean(),
  hasText: fc.boolean(),
  elapsed: fc.integer({ min: 0, max: 90_000 }),
  cost: fc.double({ min: 0, max: 1, noNaN: true }),
  /** Milliseconds until the circuit may be asked again. */
  refusal: fc.integer({ min: 2_000, max: 100_000 }),
  /** True when a compaction frees tokens, or a refreshed key changes. */
  works: fc.boolean(),
  /** True when a success of another call pays for an attempt of a call that waits for the retry budget. */
  pays: fc.boolean(),
  draw: fc.double({ min: 0, max: 0.999, noNaN: true }),
  /** Cooldown that another call opens meanwhile. */
  other: fc.option(fc.tuple(fc.nat(3), fc.integer({ min: 1, max: 200_000 })), { nil: undefined }),
  /** Indices of targets that have answered, and of targets that other calls are asking. */
  answered: fc.subarray([0, 1, 2, 3]),
  asked: fc.subarray([0, 1, 2, 3])
})

export type Turn = typeof turn extends fc.Arbitrary<infer T> ? T : never
type Surroundings = typeof surroundings extends fc.Arbitrary<infer T> ? T : never

// -----------------------------------------------------------------------------
// A whole call
// -----------------------------------------------------------------------------

/** The world's own counts at one moment. */
interface Books {
  readonly now: number
  /** Milliseconds of waits and of failed attempts that streamed no text. */
  readonly spent: number
  readonly cost: number
  /** Ids of the targets that attempts were sent to. */
  readonly asked: ReadonlyArray<string>
  /** True when the consumer has seen text. */
  readonly seen: boolean
  /** True when the text of a cut answer is kept and no other text has replaced it. */
  readonly kept: boolean
}

/** One step of the state machine. */
export interface Entry {
  readonly event: CallState.Event
  readonly snapshot: CallState.Snapshot
  readonly before: CallState.CallState
  readonly action: CallState.Action
  readonly after: CallState.CallState
  readonly books: Books
  readonly draw: number
  /** True when the action sends an attempt and it really was sent. */
  readonly sent: boolean
}

export interface World {
  readonly policy: RecoveryPolicy.RecoveryPolicy
  readonly views: ReadonlyArray<CallState.TargetView>
  readonly around: Surroundings
  readonly entries: ReadonlyArray<Entry>
}

export const tokensOfAnAttempt = 7

/** Steps after which a call counts as endless. */
const tooMany = 2_000

export const play = (
  policy: RecoveryPolicy.RecoveryPolicy,
  views: ReadonlyArray<CallState.TargetView>,
  around: Surroundings,
  turns: ReadonlyArray<Turn>
): World => {
  const entries: Array<Entry> = []
  let books: Books = { now: 0, spent: 0, cost: 0, asked: [], seen: false, kept: false }
  let cooldowns = Cooldown.empty
  let budget = around.budget
  let state = CallState.initial
  let event: CallState.Event = { _tag: "Started", ...around.call }
  const streaks = new Map<string, CallState.Streak>()
  const pass = (millis: number): void => {
    books = { ...books, now: books.now + millis, spent: books.spent + millis }
  }

  for (let n = 0; n < tooMany && state.doing._tag !== "Done"; n++) {
    const turn = turns[n % turns.length]
    if (turn === undefined) break
    const { failure, commit, elapsed, cost } = turn
    if (turn.other !== undefined) {
      const [which, length] = turn.other
      const ref = views[which % views.length]?.ref
      const { now } = books
      if (ref !== undefined)
        cooldowns = Cooldown.open(
          cooldowns,
          { scope: "model", target: ref, until: now + length, failure },
          now
        )
    }
    const at = (places: ReadonlyArray<number>) => views.filter((_, place) => places.includes(place))
    const isFirst = CallState.attemptsOf(state) === 0
    const snapshot: CallState.Snapshot = {
      now: books.now,
      deadline: around.deadline,
      targets: views,
      dead: [],
      cooldowns,
      mayRetry: isFirst || budget > 0,
      canCompact: around.canCompact,
      streaks: new Map(streaks),
      answered: new Map(at(turn.answered).map(({ ref }) => [ref.id, books.now])),
      flying: at(turn.asked).map(({ ref }) => ({ target: ref, startedAt: books.now - turn.elapsed }))
    }
    const [action, after]: readonly [CallState.Action, CallState.CallState] = CallState.step(
      policy,
      state,
      event,
      snapshot,
      turn.draw
    )
    const keptAway = isSending(action) && turn.outcome === "kept away"
    const before = state
    if (event._tag === "Cut" && event.hasText) books = { ...books, kept: true }
    entries.push({
      event,
      snapshot,
      before,
      action,
      after,
      books,
      sent: isSending(action) && !keptAway,
      draw: turn.draw
    })
    state = after
    if (action.cooldown !== undefined) cooldowns = Cooldown.open(cooldowns, action.cooldown, books.now)
    if (isSending(action) && !action.isFree && snapshot.mayRetry) budget--

    switch (action._tag) {
      case "GiveUp":
      case "Deliver":
        break
      case "Await":
        throw new Error("No attempt of this world is late: see Hedge.test.ts.")
      case "Wait": {
        // A success of another call pays for an attempt of this one, or the budget stays empty until the deadline.
        const early: number =
          action.forBudget && around.budget > 0 && turn.pays ? (action.until - books.now) / 2 : 0
        pass(action.until - books.now - early)
        if (early > 0) budget++
        event = { _tag: "Woke", early, to: views[turn.answered[0] ?? 0]?.ref }
        break
      }
      case "Compact":
        event = turn.works ? { _tag: "Compacted", freed: 1_000 } : { _tag: "CompactionFailed" }
        books = { ...books, now: books.now + elapsed }
        break
      case "LeaveOut":
        event = { _tag: "LeftOut", part: action.part, dropped: turn.works ? 1 : 0 }
        break
      case "RenewKey":
        event = { _tag: "KeyAsked", renewed: turn.works }
        books = { ...books, now: books.now + elapsed }
        break
      default: {
        if (keptAway && (action.delay === 0 || turn.works)) {
          const waited: boolean = action.delay === 0
          const byCircuit = turn.inToolCall
          event = { _tag: "PermitRefused", until: books.now + turn.refusal, failure, waited, byCircuit }
          break
        }
        pass(action.delay)
        if (keptAway) {
          event = { _tag: "TakenAway" }
          break
        }
        const { target } = action
        if (action.probe) cooldowns = Cooldown.beginProbe(cooldowns, target, books.now)
        const goesOn = isContinuing(after.answer)
        const seen = (books.seen && goesOn) || commit === "text"
        books = {
          ...books,
          now: books.now + elapsed,
          cost: books.cost + cost,
          asked: [...books.asked, target.id],
          // A failed repeat replaces no text, unless the consumer has seen text of it.
          kept: books.kept && (goesOn || turn.outcome === "cut" || commit !== "text"),
          seen
        }
        const spent = { elapsed, cost, tokens: tokensOfAnAttempt }
        if (turn.outcome === "cut") {
          const info = views.find(({ ref }) => ref.id === target.id)?.info ?? {}
          const { gain, input, inToolCall } = turn
          const hasText = commit === "text" || turn.hasText
          const limit = OutputLimit.within(after.mended.outputLimit, info)
          event = { _tag: "Cut", commit, gain, input, limit, inToolCall, hasText, ...spent }
          cooldowns = Cooldown.clear(cooldowns, target, books.now - elapsed)
          streaks.delete(target.id)
        } else {
          if (commit !== "text") books = { ...books, spent: books.spent + elapsed }
          event = { _tag: "Failed", failure, commit, isProven: turn.works, ...spent }
          if (action.probe) cooldowns = Cooldown.failProbe(cooldowns, target)
          const streak = streaks.get(target.id)
          streaks.set(target.id, { failures: (streak?.failures ?? 0) + 1, delay: action.delay })
        }
      }
    }
  }
  return { policy, views, around, entries }
}

/** The surroundings of a plain call. */
export const ordinary: Surroundings = {
  deadline: Infinity,
  canCompact: false,
  budget: Infinity,
  call: CallState.initial.call
}

/** Views of targets that share no key, model or endpoint. */
export const viewsOf = (...models: ReadonlyArray<string>) =>
  models.map((model) => ({
    ref: { id: model, provider: "p", model, endpoint: model, key: "" },
    info: {},
    renewable: false
  }))

export const calm: Turn = {
  outcome: "failed",
  failure: failed(new FailoverReason.ServerError()),
  commit: "nothing",
  gain: 0,
  input: undefined,
  inToolCall: false,
  hasText: true,
  elapsed: 0,
  cost: 0,
  refusal: 10_000,
  works: true,
  pays: false,
  draw: 0,
  other: undefined,
  answered: [],
  asked: []
}

const world = fc
  .tuple(policy, targets, surroundings, fc.array(turn, { minLength: 30, maxLength: 30 }))
  .map(([policy, views, around, turns]) => play(policy, views, around, turns))

// Generate the calls once for all properties, because that takes longer than checking them.
let worlds: ReadonlyArray<World> | undefined

/** Checks a property on many calls. A failure names the `SEED` that reproduces it. */
export const forAll = (property: (world: World) => void): void => {
  worlds ??= fc.sample(world, { numRuns: Sweeps.runs(4_000) })
  for (const world of worlds) {
    try {
      property(world)
    } catch (cause) {
      throw new Error(`SEED=${Sweeps.seed}\n${world.entries.map(lineOf).join("\n")}`, { cause })
    }
  }
}

const lineOf = ({ event, action, books, sent }: Entry): string => {
  const why = "failure" in event ? `${event._tag} ${event.failure.reason._tag}` : event._tag
  const where = "target" in action ? ` ${action.target.id} +${"delay" in action ? action.delay : 0}` : ""
  const free = isSending(action) && action.isFree ? " (free)" : ""
  return `${books.now}: ${why} -> ${action._tag}${where}${free}${sent || !isSending(action) ? "" : " (kept away)"}`
}

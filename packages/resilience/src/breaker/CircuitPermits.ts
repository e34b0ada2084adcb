/**
 * Permits for calls, from one circuit or several, and their outcomes. A permit of a half-open circuit that is shared
 * with other processes comes from the store. Internal to `CircuitBreaker`.
 */
import type { Scope } from "effect"
import { Duration, Effect } from "effect"
import * as ErrorText from "../ErrorText.ts"
import type { CircuitPolicy } from "./CircuitPolicy.ts"
import { CircuitRefused } from "./CircuitRefused.ts"
import type { AnyFiber, Cell, Circuits } from "./Circuits.ts"
import { draw, monotonic, wallTime } from "./Circuits.ts"
import type { Outcome } from "./CircuitOutcome.ts"
import { hintOf, ignored } from "./CircuitOutcome.ts"
import * as State from "./CircuitState.ts"
import type { CircuitStore } from "./CircuitStore.ts"

/** The name of one circuit, or of several. Either all of them let the call through, or none is changed. */
export type Names = string | ReadonlyArray<string>

export interface AdmitOptions {
  /**
   * Identifies the call that an attempt belongs to. Attempts with the same value are one call. `Retry` sets it.
   * Default: each attempt is a separate call.
   */
  readonly call?: unknown
  /**
   * Set when the call has no alternative. One such call per second passes an open or a half-open circuit, and its
   * outcome counts as a probe's. Default: false.
   */
  readonly lastResort?: boolean | undefined
  /**
   * Set when the circuit refused this call before. After a circuit closes, such calls pass gradually: three at once,
   * and one more for each success. Default: false.
   */
  readonly waited?: boolean | undefined
}

/** The `restore` function of `uninterruptibleMask`, which makes an effect interruptible again if the caller was. */
export type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** Leaves the effect as uninterruptible as it is. */
export const keep: Restore = (effect) => effect

/** One circuit's part of a permit. */
interface Share {
  readonly cell: Cell
  readonly grant: State.Grant
  readonly started: number
  readonly call: unknown
}

export interface Permits {
  /** Returns a new id of a holder, unique over all processes. */
  readonly holder: () => string
  /** Asks all circuits. Either all of them let the call through, or none is changed. */
  readonly admit: (
    names: Names,
    options: AdmitOptions,
    restore: Restore
  ) => Effect.Effect<ReadonlyArray<Share>, CircuitRefused>
  readonly end: (shares: ReadonlyArray<Share>, outcome: Outcome, restore: Restore) => Effect.Effect<void>
  /** Reports the outcome for one circuit. `now` is in monotonic milliseconds. */
  readonly endOne: (
    share: Share,
    outcome: Outcome,
    fiber: AnyFiber,
    restore: Restore,
    now?: number
  ) => Effect.Effect<void>
  /**
   * Applies a change that this process decided. Shares it with other processes if it starts a new generation or was
   * made by hand.
   */
  readonly decide: (cell: Cell, after: State.CircuitState, fiber: AnyFiber, byHand?: boolean) => void
  /** True without a store, and while the store's verdicts are known or not needed. */
  readonly isCurrent: () => boolean
}

/** Maximum length of `Status.lastFailure`, in characters. */
const maxWords = 200

/** Attaches the store, and gives permits from then on. */
export const make = (
  policy: CircuitPolicy,
  circuits: Circuits,
  store: CircuitStore
): Effect.Effect<Permits, never, Scope.Scope> =>
  Effect.gen(function* () {
    // Not from `Random`: two processes with the same seed would get the same id.
    const instance = globalThis.crypto.randomUUID()
    let holders = 0
    const newHolder = (): string => `${instance}-${++holders}`

    const decide = (cell: Cell, after: State.CircuitState, fiber: AnyFiber, byHand = false): void => {
      const before = cell.state
      if (circuits.move(cell, after, fiber) && (byHand || after.generation !== before.generation)) {
        shared?.share({ circuit: cell.circuit, before, after, byHand })
      }
    }

    /** Applies a state that came from the store. */
    const adopt = (cell: Cell, after: State.CircuitState, fiber: AnyFiber): void => {
      const { phase, generation } = cell.state
      // A circuit that is closed here and in the store keeps its local state, which includes the counts.
      const isSameClosed = phase === "closed" && after.phase === "closed" && after.generation === generation
      if (!isSameClosed) circuits.move(cell, after, fiber)
    }

    const shared = yield* store.attach({
      policy,
      adopt: (circuit, state) =>
        Effect.withFiber((fiber) => {
          adopt(circuits.of(circuit, fiber), state, fiber)
          return Effect.void
        }),
      publish: (event) =>
        Effect.withFiber((fiber) => {
          circuits.publish(event, fiber)
          return Effect.void
        })
    })
    const isCurrent = (): boolean => shared === undefined || shared.isCurrent()

    const refused = (
      circuit: string,
      { reason, retryAfter }: { reason: CircuitRefused["reason"]; retryAfter: number | undefined },
      fiber: AnyFiber
    ): Effect.Effect<never, CircuitRefused> => {
      circuits.publish({ _tag: "CircuitRefusal", at: wallTime(fiber), circuit, reason, retryAfter }, fiber)
      const wait = retryAfter === undefined ? undefined : Duration.millis(retryAfter)
      const lastFailure = circuits.lastFailure(circuit)
      const refusal = { circuit, reason, retryAfter: wait, lastFailure }
      return Effect.fail(ErrorText.withoutStack(() => new CircuitRefused(refusal)))
    }

    const admitOne = (
      circuit: string,
      options: AdmitOptions,
      fiber: AnyFiber,
      restore: Restore
    ): Effect.Effect<Share, CircuitRefused> => {
      const cell = circuits.of(circuit, fiber)
      const now = monotonic(fiber)
      const holder = newHolder()
      if (!isCurrent()) return refused(circuit, { reason: "store", retryAfter: undefined }, fiber)
      const [admission, after] = State.admit(policy, cell.state, holder, now, options)
      if (!admission.granted) return refused(circuit, admission.refusal, fiber)
      const enter = ({ grant }: { readonly grant: State.Grant }): Share => {
        cell.running++
        return { cell, grant, started: now, call: options.call }
      }
      const isLocalGrant = admission.grant.holder === undefined || admission.grant.lastResort === true
      if (shared === undefined || isLocalGrant) {
        circuits.move(cell, after, fiber)
        return Effect.succeed(enter(admission))
      }
      const asking = Effect.flatMap(shared.admit(circuit, holder, cell.state), ({ answer, leave }) =>
        Effect.onInterrupt(restore(answer), () => leave)
      )
      return Effect.flatMap(asking, (answer) => {
        if (answer === undefined && !isCurrent()) {
          return refused(circuit, { reason: "store", retryAfter: undefined }, fiber)
        }
        if (answer?.granted === true && answer.generation === cell.state.generation) {
          return Effect.succeed(enter({ grant: { generation: answer.generation, holder } }))
        }
        // Decides again, because the circuit may have changed while the store was asked.
        const [local, next] = State.admit(policy, cell.state, holder, monotonic(fiber), options)
        if (!local.granted) return refused(circuit, local.refusal, fiber)
        if (answer !== undefined && local.grant.holder !== undefined) {
          return refused(circuit, { reason: "half-open", retryAfter: undefined }, fiber)
        }
        circuits.move(cell, next, fiber)
        return Effect.succeed(enter(local))
      })
    }

    const endOne = (
      { cell, grant, started, call }: Share,
      outcome: Outcome,
      fiber: AnyFiber,
      restore: Restore,
      now = monotonic(fiber)
    ): Effect.Effect<void> => {
      const { circuit } = cell
      const took = now - started
      const retryAfter = outcome.counts === "failure" ? hintOf(outcome.retryAfter) : undefined
      cell.running--
      const inFlight = cell.running
      const ended: State.Ended =
        outcome.counts === "ignored"
          ? { outcome: "ignored" }
          : { outcome: outcome.counts, retryAfter, took, call, inFlight }
      if (outcome.counts === "failure") {
        if (grant.generation === cell.state.generation) cell.lastFailure = outcome.what?.slice(0, maxWords)
        circuits.publish({ _tag: "CircuitFailure", at: wallTime(fiber), circuit, retryAfter }, fiber)
      }
      if (outcome.counts !== "ignored" && grant.holder !== undefined && took >= policy.probeLimit) {
        circuits.publish({ _tag: "CircuitProbeLate", at: wallTime(fiber), circuit, took }, fiber)
      }
      const chance = draw(fiber)
      const settled = (): State.CircuitState => State.settle(policy, cell.state, grant, ended, now, chance)
      if (shared === undefined || grant.holder === undefined || grant.lastResort === true) {
        decide(cell, settled(), fiber)
        return Effect.void
      }
      // A caller that is interrupted does not wait for the store, and continues with the next circuit.
      return Effect.flatMap(
        shared.settle(circuit, grant, State.judgedAsProbe(policy, cell.state, ended), cell.state, chance),
        ({ answer, leave }) =>
          Effect.matchCauseEffect(restore(answer), {
            onFailure: () => leave,
            onSuccess: (told) => Effect.sync(() => (told ? undefined : decide(cell, settled(), fiber)))
          })
      )
    }

    /**
     * Asks the circuits in the order of their names, so that two calls cannot each hold a permit that the other needs.
     */
    const admit = (
      names: Names,
      options: AdmitOptions,
      restore: Restore
    ): Effect.Effect<ReadonlyArray<Share>, CircuitRefused> =>
      Effect.withFiber((fiber) => {
        if (typeof names === "string")
          return Effect.map(admitOne(names, options, fiber, restore), (share) => [share])
        const all = [...new Set(names)].sort()
        // Checks all circuits before changing any. Otherwise one whose open time is over would become half-open for
        // a call that another circuit refuses.
        const now = monotonic(fiber)
        for (const name of isCurrent() ? all : []) {
          const known = circuits.read(name)
          const [admission] = State.admit(policy, known, "", now, options)
          if (!admission.granted) return refused(name, admission.refusal, fiber)
        }
        const held: Array<Share> = []
        return Effect.forEach(
          all,
          (name) => Effect.map(admitOne(name, options, fiber, restore), (share) => void held.push(share)),
          { discard: true }
        ).pipe(
          Effect.onError(() => end(held, ignored, restore)),
          Effect.as(held)
        )
      })

    const end = (shares: ReadonlyArray<Share>, outcome: Outcome, restore: Restore): Effect.Effect<void> =>
      Effect.withFiber((fiber) =>
        Effect.forEach(shares, (share) => endOne(share, outcome, fiber, restore), { discard: true })
      )

    return { holder: newHolder, admit, end, endOne, decide, isCurrent }
  })

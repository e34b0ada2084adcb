/**
 * Counts how often the same chain is built, to find programs that build the layer again for each call.
 *
 * Every build starts with no cooldowns, closed circuits and a full retry budget, so each of them asks a dead key
 * again. Two chains are the same when their targets have the same provider, model, endpoint and key name.
 *
 * Builds are counted per `Clock` service, so that tests with a `TestClock` do not affect each other. The last {@link
 * maxChains} chains are remembered.
 */
import type { Clock } from "effect"
import type { Warnings } from "@outlast/resilience"
import type { TargetRef } from "../../conversation/TargetRef.ts"

/** Number of builds within {@link window} that leads to a warning. */
const many = 3

/** Time window of the count, in milliseconds. */
const window = 60_000

/** Maximum number of chains remembered per clock. */
const maxChains = 100

interface Builds {
  /** Times of the last builds, in monotonic milliseconds. */
  readonly at: ReadonlyArray<number>
  readonly isWarned: boolean
}

const known = new WeakMap<Clock.Clock, Map<string, Builds>>()

/** Counts a build. `isFirst`: there was no other within the window. `line`: the warning, returned once per chain. */
export const count = (
  clock: Clock.Clock,
  targets: ReadonlyArray<TargetRef>
): { readonly isFirst: boolean; readonly line: Warnings.Line | undefined } => {
  const chains = known.get(clock) ?? new Map<string, Builds>()
  known.set(clock, chains)
  const chain = JSON.stringify(
    targets.map(({ provider, model, endpoint, key }) => [provider, model, endpoint, key])
  )
  const now = Number(clock.monotonicTimeNanosUnsafe()) / 1_000_000
  const before = chains.get(chain)
  const recent = (before?.at ?? []).filter((at) => now - at < window)
  const at = [...recent, now].slice(-many)
  const wasWarned = before?.isWarned ?? false
  const isMany = at.length >= many
  // Insert the chain again as the newest, so that the oldest one is evicted.
  chains.delete(chain)
  chains.set(chain, { at, isWarned: wasWarned || isMany })
  for (const oldest of chains.keys()) {
    if (chains.size <= maxChains) break
    chains.delete(oldest)
  }
  return { isFirst: recent.length === 0, line: isMany && !wasWarned ? warning(targets) : undefined }
}

const warning = (targets: ReadonlyArray<TargetRef>): Warnings.Line => ({
  level: "Warn",
  text: `The chain ${targets.map(({ id }) => id).join(", ")} was built ${many} times within a minute. Every build forgets cooldowns, circuits and the retry budget, so a dead key is asked again. Build its layer once: run the program with ManagedRuntime.make(layer), or provide the layer once at the top instead of per call.`
})

/**
 * One instance of a program at a time.
 *
 * {@link acquire} takes a `StoreLock`. While another process holds it, `whenHeld` decides:
 *
 * - `"refuse"` (default): fail with `AlreadyRunning`, exit code 75
 * - `wait("30 seconds")`: for rolling updates, where the old process is about to end
 * - `takeOver()`: end the old process by SIGTERM, and after the grace time by SIGKILL
 *
 * The kernel keeps the lock, so an outdated pid file keeps no program from starting, and a process that got the id of
 * an earlier holder is never signalled.
 *
 * **Limits.** Those of `StoreLock`: one machine, no network file system. A takeover needs Linux' `/proc` and refuses a
 * holder in another PID namespace. Between the last look at the start time and the signal the process may end and its
 * id may be reused. That takes less than a millisecond, and the kernel gives out all other ids first.
 *
 * **Example** (One agent for a folder)
 *
 * ```ts
 * const Instance = SingleInstance.layer("data/agent.lock", { whenHeld: SingleInstance.wait("30 seconds") })
 * ```
 */
import { Clock, Config, Duration, Effect, Layer } from "effect"
import type { Scope } from "effect"
import { InvalidOption, StoreError } from "@outlast/resilience"
import * as Check from "@outlast/resilience/Options"
import { AlreadyRunning } from "./AlreadyRunning.ts"
import type { Reason } from "./AlreadyRunning.ts"
import * as PidFile from "./PidFile.ts"
import type { Holder } from "./PidFile.ts"
import * as Identity from "./ProcessIdentity.ts"
import * as StoreLock from "./StoreLock.ts"
import * as TakeOver from "./TakeOverState.ts"

export { AlreadyRunning, exitCode } from "./AlreadyRunning.ts"

/** Behaviour while another process holds the lock. */
export type WhenHeld = "refuse" | { readonly wait: Duration.Input } | { readonly takeOver: TakeOverOptions }

export interface TakeOverOptions {
  /** Time from SIGTERM to SIGKILL. Default 5 seconds. An orderly shutdown may need more: see `Host`. */
  readonly grace?: Duration.Input | undefined
  /** Time from SIGKILL until the takeover fails. Default 5 seconds. */
  readonly afterKill?: Duration.Input | undefined
}

export interface Options {
  /** Default "refuse". */
  readonly whenHeld?: WhenHeld | undefined
  /** As for `StoreLock`. Default "refuse". */
  readonly networkFileSystem?: "refuse" | "allow" | undefined
}

export const defaults = {
  whenHeld: "refuse",
  networkFileSystem: "refuse",
  grace: Duration.seconds(5),
  afterKill: Duration.seconds(5)
} as const

/** Waits at most this time for the other process to end. */
export const wait = (limit: Duration.Input): WhenHeld => ({ wait: limit })

/** Ends the other process. */
export const takeOver = (options: TakeOverOptions = {}): WhenHeld => ({ takeOver: options })

const module = "SingleInstance"
const { is } = Check

const takeOverChecks: Check.Checks<TakeOverOptions> = { grace: is.duration(), afterKill: is.duration() }

const whenHeldCheck: Check.Check = (module, field, value) => {
  if (value === "refuse") return
  if (typeof value !== "object" || value === null) {
    throw new InvalidOption(module, field, value, '"refuse", { wait } or { takeOver }')
  }
  if ("wait" in value)
    is.object({ wait: is.required(is.duration({ max: Duration.infinity })) })(module, field, value)
  else is.object({ takeOver: is.required(is.object(takeOverChecks)) })(module, field, value)
}

const checks: Check.Checks<Options> = {
  whenHeld: whenHeldCheck,
  networkFileSystem: is.oneOf("refuse", "allow")
}

/** Holds the lock at `path` until the scope closes. Throws an `InvalidOption` for an invalid path or option. */
export const acquire = (
  path: string,
  options: Options = {}
): Effect.Effect<StoreLock.StoreLock, AlreadyRunning | StoreError.StoreError, Scope.Scope> => {
  Check.fields(module, options, checks)
  const { whenHeld = defaults.whenHeld, networkFileSystem } = options
  const take = (wait: Duration.Input = Duration.zero) => StoreLock.acquire(path, { networkFileSystem, wait })
  if (whenHeld === "refuse") return orRunning(take(), "held")
  if ("wait" in whenHeld) return orRunning(take(whenHeld.wait), "timeout")
  const { grace = defaults.grace, afterKill = defaults.afterKill } = whenHeld.takeOver
  return takingOver(take(), {
    grace: Duration.toMillis(grace),
    afterKill: Duration.toMillis(afterKill),
    settle: Duration.toMillis(settle)
  })
}

/** The lock as a layer: held while the layer is. */
export const layer = (
  path: string,
  options: Options = {}
): Layer.Layer<never, AlreadyRunning | StoreError.StoreError> => Layer.effectDiscard(acquire(path, options))

/** Settings of {@link layerConfig}: the options, and the path of the lock. */
export interface ConfigOptions extends Options {
  readonly path: string
}

/**
 * {@link layer} with settings from `effect/Config`, such as environment variables. A field that is not named keeps its
 * default.
 *
 * **Example**
 *
 * ```ts
 * SingleInstance.layerConfig({ path: Config.String("LOCK_FILE") })
 * ```
 */
export const layerConfig = (
  options: Config.Wrap<ConfigOptions>
): Layer.Layer<never, AlreadyRunning | Config.ConfigError | StoreError.StoreError> =>
  Layer.unwrap(
    Effect.map(Config.unwrap<ConfigOptions>(options), ({ path, ...options }) => layer(path, options))
  )

/** A new holder writes its pid file right after it gets the lock. */
const settle = Duration.seconds(1)

type Take = Effect.Effect<StoreLock.StoreLock, StoreError.StoreError, Scope.Scope>

const running = (path: string, reason: Reason, holder: Holder | undefined): AlreadyRunning =>
  new AlreadyRunning({ path, reason, holder: PidFile.describe(holder) })

/** The path of a lock that is held; `undefined` for other errors. */
const heldPath = (error: StoreError.StoreError): string | undefined =>
  error.reason === "locked" ? error.file : undefined

const orRunning = (take: Take, reason: Reason) =>
  Effect.mapError(take, (error) => {
    const path = heldPath(error)
    return path === undefined ? error : running(path, reason, PidFile.read(path))
  })

const takingOver = (take: Take, limits: TakeOver.Limits) =>
  Effect.gen(function* () {
    let state = TakeOver.begin(yield* Clock.currentTimeMillis, limits)
    for (;;) {
      const error = yield* Effect.match(take, { onSuccess: (lock) => lock, onFailure: (error) => error })
      if (!(error instanceof StoreError.StoreError)) return error
      const path = heldPath(error)
      if (path === undefined) return yield* error
      const holder = PidFile.read(path)
      const [action, next] = TakeOver.step(limits, state, {
        now: yield* Clock.currentTimeMillis,
        holder,
        verdict: holder === undefined ? "unknown" : Identity.compare(holder),
        isSelf: holder !== undefined && Identity.isSame(holder, Identity.own())
      })
      state = next
      if (action._tag === "Refuse") return yield* running(path, action.why, action.holder)
      if (action._tag === "Signal") yield* send(path, action)
      yield* Effect.sleep(StoreLock.pause)
    }
  })

const send = (path: string, { holder, signal }: TakeOver.Action & { readonly _tag: "Signal" }) =>
  Effect.gen(function* () {
    yield* Effect.logWarning(
      `Taking over the lock ${path}: sending ${signal} to process ${holder.pid} (started ${holder.since}).`
    )
    // Once more, right before the signal.
    if (Identity.compare(holder) !== "running") return
    const code = yield* Effect.sync(() => kill(holder.pid, signal))
    if (code === "EPERM") return yield* running(path, "notPermitted", holder)
  })

/** The error code; `undefined` for success. A process that has just ended is no error. */
const kill = (pid: number, signal: NodeJS.Signals): string | undefined => {
  try {
    process.kill(pid, signal)
    return undefined
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : String(error)
    return code === "ESRCH" ? undefined : code
  }
}

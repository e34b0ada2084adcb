/** Runs a program as the main program of its process, with its signals and exit codes. See `Host.runMain`. */
import { Cause, Clock, Config, Duration, Effect, Exit, Fiber, Option, Runtime } from "effect"
import { writeSync } from "node:fs"
import { constants } from "node:os"
import * as Check from "@outlast/resilience/Options"
import type { HostOptions } from "./HostOptions.ts"
import { checks, defaults, planOf } from "./HostOptions.ts"
import * as HostService from "./HostService.ts"
import { Host } from "./HostService.ts"
import * as Limited from "./Limited.ts"
import { reserve } from "./ShutdownState.ts"
import * as Watchdog from "./Watchdog.ts"

export interface RunMainOptions extends HostOptions {
  /** Signals that start a shutdown. Default SIGTERM and SIGINT. */
  readonly signals?: ReadonlyArray<NodeJS.Signals> | undefined
  /** True when a person waits for the end. Default: standard input or output is a terminal. */
  readonly isTerminal?: boolean | undefined
}

/**
 * Exit codes of a program under `Host.runMain`:
 *
 * - 0: it ended by itself, or a signal ended it and every step of the shutdown was complete
 * - 1: it failed (an error with `Runtime.errorExitCode` has its own code, `AlreadyRunning` 75)
 * - 70: a step of the shutdown failed, or was left behind at its limit (`EX_SOFTWARE`)
 * - 130, 143: a second signal ended it at once (128 + the number of the signal)
 * - 137: the thread was blocked during the shutdown, and the process was killed (shells show SIGKILL so)
 */
export const exitCodes = { done: 0, failed: 1, incomplete: 70 } as const

/** A repetition of the first signal within this time is the same wish: npm forwards what the terminal sends anyway. */
export const repeatWindow = 300

/** Milliseconds after the end of the total limit at which a blocked thread is killed. */
const watchdogMargin = 1_000

const module = "Host.runMain"

const mainChecks: Check.Checks<RunMainOptions> = {
  ...checks,
  signals: Check.is.list(
    (module, field, value) =>
      Check.check(
        typeof value === "string" && value in constants.signals && value !== "SIGKILL" && value !== "SIGSTOP",
        module,
        field,
        value,
        'a signal that can be handled, for example "SIGTERM"'
      ),
    "a list of signals"
  ),
  isTerminal: Check.is.flag
}

export const runMain = <A, E>(main: Effect.Effect<A, E, Host>, options: RunMainOptions = {}): void => {
  Check.effect(module, "main", main)
  Check.fields(module, options, mainChecks)
  const { signals = ["SIGTERM", "SIGINT"], isTerminal = process.stdin.isTTY || process.stdout.isTTY } =
    options
  const plan = planOf(options, isTerminal)
  const watchdog = Watchdog.make()
  // The end of the main program has its share of the total, too.
  const total = Math.max(plan.total - reserve, plan.total / 2)
  const checkLimit = Duration.toMillis(options.checkLimit ?? defaults.checkLimit)
  const onStatus = (status: HostService.Status): void => {
    watchdog.status(status)
    if (status !== "draining") return
    watchdog.start(plan.total + watchdogMargin)
    // The reader of the log may have ended. Without a listener, a failed write would end the process here.
    for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {})
  }
  const host = Effect.runSync(HostService.make({ ...plan, total }, checkLimit, onStatus))
  let isAborted = false
  let first: { readonly signal: NodeJS.Signals; readonly at: number } | undefined

  const onSignal = (signal: NodeJS.Signals): void => {
    const now = process.hrtime()
    const at = now[0] * 1_000 + now[1] / 1_000_000
    if (first !== undefined) {
      if (signal === first.signal && at - first.at < repeatWindow) return
      say(`Ended at once by a second signal (${signal}) during the shutdown.`)
      const end = () => process.exit(128 + constants.signals[signal])
      if (isAborted) end()
      isAborted = true
      Effect.runFork(host.abort).addObserver(end)
      return
    }
    first = { signal, at }
    Effect.runFork(host.shutdown(signal))
  }

  for (const signal of signals) process.on(signal, onSignal)
  Effect.runFork(Effect.raceFirst(supervise(main, host, plan.total), keepAlive)).addObserver((exit) => {
    for (const signal of signals) process.removeListener(signal, onSignal)
    if (Exit.isFailure(exit)) {
      say(Cause.pretty(exit.cause))
      process.exit(exitCodes.failed)
    }
    const { code, mustExit } = exit.value
    // Open timers and sockets may end first, as in a program without `runMain`.
    if (mustExit || code !== 0) process.exit(code)
  })
}

/**
 * {@link runMain} with settings from `effect/Config`: by default from environment variables. A field that is not named
 * keeps its default. Ends with 1 when a setting is wrong.
 */
export const runMainConfig = <A, E>(
  main: Effect.Effect<A, E, Host>,
  options: Config.Wrap<RunMainOptions>
): void => {
  const settings = Effect.runSyncExit(
    Effect.gen(function* () {
      return yield* Config.unwrap<RunMainOptions>(options)
    })
  )
  if (Exit.isSuccess(settings)) return runMain(main, settings.value)
  const error = Cause.squash(settings.cause)
  say(`The settings of the host are wrong. ${error instanceof Error ? error.message : String(error)}`)
  process.exit(exitCodes.failed)
}

interface Ended {
  readonly code: number
  readonly mustExit: boolean
}

const supervise = <A, E>(
  main: Effect.Effect<A, E, Host>,
  host: HostService.Service,
  total: number
): Effect.Effect<Ended> =>
  Effect.gen(function* () {
    const reporting = Effect.tapCause(main, (cause) =>
      Cause.hasInterruptsOnly(cause) || !Runtime.getErrorReported(Cause.squash(cause))
        ? Effect.void
        : Effect.logError(cause)
    )
    const fiber = yield* Effect.forkDetach(Effect.provideService(reporting, Host, host), {
      startImmediately: true
    })
    const end = yield* Effect.raceFirst(
      Effect.map(Fiber.await(fiber), Option.some),
      Effect.as(host.ended, Option.none<Exit.Exit<A, E>>())
    )
    if (Option.isSome(end) && (yield* host.status) === "running") {
      return { code: codeOf(end.value), mustExit: false }
    }
    const report = yield* host.ended
    const now = yield* Clock.currentTimeMillis
    fiber.interruptUnsafe()
    const left = Math.max(total - report.took, reserve)
    const exit = yield* Limited.run(Fiber.await(fiber), left)
    if (Option.isNone(exit)) {
      const took = ((yield* Clock.currentTimeMillis) - now) / 1_000
      say(`Shutdown: the main program had not ended after ${took.toFixed(1)} s and was left behind.`)
      return { code: exitCodes.incomplete, mustExit: true }
    }
    const ended = Exit.match(exit.value, { onSuccess: (exit) => exit, onFailure: Exit.failCause })
    const code = codeOf(ended)
    if (code !== 0 && !(Exit.isFailure(ended) && Cause.hasInterruptsOnly(ended.cause))) {
      return { code, mustExit: true }
    }
    return { code: report.isComplete ? exitCodes.done : exitCodes.incomplete, mustExit: true }
  })

const codeOf = <A, E>(exit: Exit.Exit<A, E>): number => {
  let code = 0
  Runtime.defaultTeardown(exit, (of) => {
    code = of
  })
  return code
}

/** A pending timer: Node ends a process that waits for nothing else. */
const keepAlive = Effect.forever(Effect.sleep("1 day"))

/** A line that is written even right before the end. */
const say = (line: string): void => {
  try {
    writeSync(2, `${line}\n`)
  } catch {
    // Standard error is closed or full.
  }
}

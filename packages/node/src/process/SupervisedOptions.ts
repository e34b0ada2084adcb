/** Options of `Supervised`, with their defaults. */
import { Duration } from "effect"
import type { Effect, Scope } from "effect"
import * as Backoff from "@outlast/resilience/Backoff"
import * as Check from "@outlast/resilience/Options"
import type { Bounds, ProcessIo } from "./ProcessIo.ts"
import type { Policy } from "./RespawnState.ts"

export interface Health<Client, R> {
  /** Fails when the process does not do its work. */
  readonly check: (client: Client) => Effect.Effect<unknown, unknown, R>
  /** Time between two checks. Default 30 seconds. */
  readonly every?: Duration.Input | undefined
  /** Longest time of one check. Default 5 seconds. */
  readonly limit?: Duration.Input | undefined
  /** Consecutive failures before the process is killed. Default 3. */
  readonly failures?: number | undefined
}

export interface Respawn {
  /** Restarts within `window` before the circuit opens. Default 5. */
  readonly restarts?: number | undefined
  /** Default 5 minutes. */
  readonly window?: Duration.Input | undefined
  /** Delay before restart n within the window. Default 1 s, twice as long each time, at most 16 s. */
  readonly backoff?: Backoff.Backoff | undefined
  /** Time for which the circuit stays open. Default 5 minutes. */
  readonly open?: Duration.Input | undefined
}

export interface Output {
  /** Longest line of standard output, in characters. A longer one ends the process. Default 4 Mi. */
  readonly line?: number | undefined
  /**
   * Lines that are buffered in each direction. The process or the caller waits beyond. The process also waits when the
   * buffered output has `line` characters. Default 256.
   */
  readonly lines?: number | undefined
  /** Characters of standard error that are kept for people. Default 16 Ki. */
  readonly tail?: number | undefined
}

export interface SupervisedOptions<Client, R> {
  /** The name in errors, events and metrics. */
  readonly name: string
  readonly command: string
  readonly args?: ReadonlyArray<string> | undefined
  /** Default: the folder of this process. */
  readonly cwd?: string | undefined
  /** Variables of the environment, besides those of this process. `undefined` removes one. */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined
  /** False: only the variables of `env`. Default true. */
  readonly extendEnv?: boolean | undefined
  /** Makes the client of one life. The process is ready when it succeeds. The scope
   * closes when that life ends. */
  readonly handshake: (io: ProcessIo) => Effect.Effect<Client, unknown, R | Scope.Scope>
  /** Longest time from the start to the end of the handshake. Default 10 seconds. */
  readonly handshakeLimit?: Duration.Input | undefined
  /** Default: a process that runs is healthy. */
  readonly health?: Health<Client, R> | undefined
  readonly respawn?: Respawn | undefined
  readonly output?: Output | undefined
  /** Time from SIGTERM to SIGKILL, for the whole process group. Default 3 seconds. */
  readonly stopLimit?: Duration.Input | undefined
  /** Longest time for which a caller waits for a process that starts. Default 10 seconds. */
  readonly patience?: Duration.Input | undefined
}

/**
 * The handshake, the restarts, the backoff and the stop are those of the stdio extensions of nexo-rs
 * (`StdioRuntime`): 10 s, 5 in 300 s, 1 s ×2 up to 16 s, 3 s. The others are ours.
 */
export const defaults = {
  handshakeLimit: Duration.seconds(10),
  health: { every: Duration.seconds(30), limit: Duration.seconds(5), failures: 3 },
  respawn: {
    restarts: 5,
    window: Duration.minutes(5),
    backoff: Backoff.exponential({ initial: "1 second", factor: 2, cap: "16 seconds", jitter: 0 }),
    open: Duration.minutes(5)
  },
  output: { line: 4_194_304, lines: 256, tail: 16_384 },
  stopLimit: Duration.seconds(3),
  patience: Duration.seconds(10)
} as const

const { is } = Check

const backoff: Check.Check = (module, field, value) =>
  Backoff.validate(value as Backoff.Backoff, `${module}: ${field}`)

export const checks: Check.Checks<SupervisedOptions<unknown, unknown>> = {
  name: is.required(is.text),
  command: is.required(is.text),
  args: is.list(is.string, "a list of texts"),
  cwd: is.text,
  // The values may be keys.
  env: is.secret(is.record(is.secret(is.string))),
  extendEnv: is.flag,
  handshake: is.required(is.fn("(io) => Effect<Client>")),
  handshakeLimit: is.duration({ min: "1 millis" }),
  health: is.object<Health<unknown, unknown>>({
    check: is.required(is.fn("(client) => Effect")),
    every: is.duration({ min: "1 millis" }),
    limit: is.duration({ min: "1 millis" }),
    failures: is.integer({ min: 1 })
  }),
  respawn: is.object<Respawn>({
    restarts: is.integer({ min: 0, max: 1_000 }),
    window: is.duration(),
    backoff,
    open: is.duration({ min: "1 millis" })
  }),
  output: is.object<Output>({
    line: is.integer({ min: 1 }),
    lines: is.integer({ min: 1 }),
    tail: is.integer({ min: 0 })
  }),
  stopLimit: is.duration(),
  patience: is.duration()
}

export const policyOf = (respawn: Respawn = {}): Policy => ({
  restarts: respawn.restarts ?? defaults.respawn.restarts,
  window: Duration.toMillis(respawn.window ?? defaults.respawn.window),
  backoff: respawn.backoff ?? defaults.respawn.backoff,
  open: Duration.toMillis(respawn.open ?? defaults.respawn.open)
})

export const boundsOf = (output: Output = {}): Bounds & { readonly tail: number } => ({
  line: output.line ?? defaults.output.line,
  lines: output.lines ?? defaults.output.lines,
  tail: output.tail ?? defaults.output.tail
})

/** A spawner whose processes are controlled by the test, for virtual time. */
import { Deferred, Effect, Layer, PlatformError, Queue, Sink, Stream } from "effect"
import { ChildProcessSpawner } from "effect/process"

/** One life of a process. */
interface Fake {
  /** Lines that were written to its standard input. */
  readonly input: Array<string>
  readonly print: (line: string) => Effect.Effect<void>
  /** Number of writes to its standard output that were not read. */
  readonly unread: () => number
  readonly exit: (code: number) => Effect.Effect<void>
  readonly isKilled: () => boolean
}

export interface Spawner {
  readonly layer: Layer.Layer<ChildProcessSpawner.ChildProcessSpawner>
  /** All lives so far. */
  readonly lives: ReadonlyArray<Fake>
  /** From now on nothing can be started. */
  readonly missing: (isMissing: boolean) => void
}

export const make = (): Spawner => {
  const lives: Array<Fake> = []
  let isMissing = false
  const spawn = Effect.fnUntraced(function* () {
    if (isMissing) {
      const method = "spawn"
      return yield* Effect.fail(
        PlatformError.systemError({
          _tag: "NotFound",
          module: "ChildProcess",
          method,
          description: "secret args"
        })
      )
    }
    const exit = yield* Deferred.make<number>()
    const output = yield* Queue.unbounded<Uint8Array>()
    const input: Array<string> = []
    let isKilled = false
    const kill = Effect.suspend(() => {
      isKilled = true
      return Deferred.succeed(exit, 143)
    })
    yield* Effect.addFinalizer(() => kill)
    lives.push({
      input,
      print: (line) => Effect.asVoid(Queue.offer(output, new TextEncoder().encode(`${line}\n`))),
      unread: () => Queue.sizeUnsafe(output),
      exit: (code) => Effect.asVoid(Deferred.succeed(exit, code)),
      isKilled: () => isKilled
    })
    return ChildProcessSpawner.makeHandle({
      pid: ChildProcessSpawner.ProcessId(2 ** 30 + lives.length),
      exitCode: Effect.map(Deferred.await(exit), (code) => ChildProcessSpawner.ExitCode(code)),
      isRunning: Effect.map(Deferred.isDone(exit), (isDone) => !isDone),
      kill: () => Effect.asVoid(kill),
      stdin: Sink.forEach((bytes: Uint8Array) =>
        Effect.sync(() => void input.push(new TextDecoder().decode(bytes).trim()))
      ),
      stdout: Stream.fromQueue(output),
      stderr: Stream.empty,
      all: Stream.empty,
      getInputFd: () => Sink.drain,
      getOutputFd: () => Stream.empty,
      unref: Effect.succeed(Effect.void)
    })
  })
  return {
    layer: Layer.succeed(
      ChildProcessSpawner.ChildProcessSpawner,
      ChildProcessSpawner.make(() => spawn())
    ),
    lives,
    missing: (to) => {
      isMissing = to
    }
  }
}

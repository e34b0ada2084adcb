/**
 * Runs the command line in this process, with its own arguments, environment and streams. A start in a process of its
 * own (`process.ts`) takes a hundred times as long. `serve`, `worker` and `doctor` with modules need one, because they
 * handle signals, load code and end the process.
 */
import { Readable, Writable } from "node:stream"
import { format } from "node:util"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Cause, ConfigProvider, Console, Effect, Layer, Runtime, Sink, Stdio, Stream } from "effect"
import { ContextWindows } from "@outlast/agent/compaction"
import { Host } from "@outlast/node/host"
import { Streams } from "#cli/chat/Terminal"
import { run } from "#cli/cli"
import type { Options, Run } from "./process.ts"

export const outlast = async (
  args: ReadonlyArray<string>,
  { input = "", env = {} }: Options = {}
): Promise<Run> => {
  const stdout: Array<string | Uint8Array> = []
  const stderr: Array<string | Uint8Array> = []
  const all: Array<string | Uint8Array> = []
  const to = (written: Array<string | Uint8Array>) => (chunk: string | Uint8Array) => {
    written.push(chunk)
    all.push(chunk)
  }
  const [out, error] = [to(stdout), to(stderr)]
  const printed =
    (write: typeof out) =>
    (...values: ReadonlyArray<unknown>) =>
      write(`${format(...values)}\n`)
  const stream = (write: typeof out) =>
    new Writable({
      write: (chunk, _, done) => {
        write(chunk)
        done()
      }
    })
  const stdio = Stdio.layerTest({
    args: Effect.succeed(args),
    stdin: input === "" ? Stream.empty : Stream.make(new TextEncoder().encode(input)),
    stdout: () => Sink.forEach((chunk) => Effect.sync(() => out(chunk))),
    stderr: () => Sink.forEach((chunk) => Effect.sync(() => error(chunk)))
  })
  const services = Layer.mergeAll(
    stdio,
    Host.layer(),
    // The default remembers the windows of models for the life of the process.
    ContextWindows.layer(() => undefined),
    ConfigProvider.layer(ConfigProvider.fromEnv({ env })),
    Layer.succeed(Console.Console, {
      ...console,
      log: printed(out),
      info: printed(out),
      debug: printed(out),
      error: printed(error),
      warn: printed(error)
    }),
    Layer.succeed(Streams, { stdin: Readable.from([input]), stdout: stream(out), stderr: stream(error) })
  ).pipe(Layer.provideMerge(NodeServices.layer))
  const main = run.pipe(
    // As `NodeRuntime.runMain` does, but to our console.
    Effect.tapCause((cause) =>
      Cause.hasInterruptsOnly(cause) || !Runtime.getErrorReported(Cause.squash(cause))
        ? Effect.void
        : Effect.logError(cause)
    ),
    Effect.provide(services)
  )
  const exit = await Effect.runPromiseExit(main)
  let exitCode: number | null = null
  Runtime.defaultTeardown(exit, (code) => (exitCode = code))
  const text = (chunks: ReadonlyArray<string | Uint8Array>) =>
    String(Buffer.concat(chunks.map((chunk) => Buffer.from(chunk))))
  return { exitCode, stdout: text(stdout), stderr: text(stderr), all: text(all) }
}

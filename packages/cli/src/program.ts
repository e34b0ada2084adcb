/**
 * The command line as a program: runs the command, writes usage errors, and ends with its exit code.
 */
import { writeSync } from "node:fs"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Effect } from "effect"
import { Host } from "@outlast/node/host"
import { run } from "./cli.ts"

// A reader that closes the pipe (`outlast demo | head`) is not an error. Other write errors are.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") {
    process.kill(process.pid, "SIGINT")
    return
  }
  writeSync(2, `outlast: the output cannot be written: ${error.message}\n`)
  process.exit(1)
})

const program = Effect.provide(run, NodeServices.layer)

// A service ends in phases. All other commands end at once.
const command = process.argv.slice(2).find((argument) => !argument.startsWith("-"))
if (command === "serve" || command === "gateway") Host.runMain(program)
else program.pipe(Effect.provide(Host.layer()), NodeRuntime.runMain)

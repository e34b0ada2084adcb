#!/usr/bin/env node
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import { Effect } from "effect"
import { Command } from "effect/cli"
import manifest from "../package.json" with { type: "json" }
import { outlast } from "./cli.ts"

// A reader that has seen enough (`outlast demo | head`) is no error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error
  process.kill(process.pid, "SIGINT")
})

outlast.pipe(
  Command.run({ version: manifest.version }),
  Effect.provide(NodeServices.layer),
  NodeRuntime.runMain
)

/**
 * Claude Code and Codex over the gateway: `npm run gateway-clients`. Each does a job of two turns with a tool, while the first
 * vendor fails every request, once overloaded and once with a refused key.
 *
 * Installs both clients (658 MB) into `.cache/gateway-clients`, without their install scripts. Not part of CI.
 */
import { Console, Effect, Redacted } from "effect"
import { execFileSync, spawn } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { KeySource } from "@outlast/agent"
import { Gateway, Server } from "@outlast/gateway"
import { Anthropic, OpenAi } from "@outlast/providers"
import * as Vendor from "./Vendor.ts"

const clients = { "@anthropic-ai/claude-code": "2.1.197", "@openai/codex": "0.171.0" } as const
const home = join(import.meta.dirname, "../../.cache/gateway-clients")
const modules = join(home, "node_modules")

const installed = (): void => {
  const files = Object.keys(clients).map((name) => join(modules, name, "package.json"))
  if (files.every((file) => existsSync(file))) return
  console.log("Installing the clients (658 MB).")
  mkdirSync(home, { recursive: true })
  writeFileSync(join(home, "package.json"), '{ "private": true }')
  const names = Object.entries(clients).map(([name, version]) => `${name}@${version}`)
  execFileSync("npm", ["install", "--no-save", "--ignore-scripts", ...names], { cwd: home, stdio: "inherit" })
}

const prompt = `Run the command \`${Vendor.command}\`, and tell me what it prints.`
const model = "outlast-route"

interface Client {
  readonly name: string
  /** The model of a vendor whose wire format the client speaks. */
  readonly target: (model: string, vendor: string) => ReturnType<typeof Anthropic.model>
  /** The arguments and variables to ask the gateway at `url`. */
  readonly run: (url: string) => {
    readonly args: ReadonlyArray<string>
    readonly env: Readonly<Record<string, string>>
  }
}

const keys = [KeySource.value("KEY", Redacted.make("sk-test-0123456789abcdef"))]

const all: ReadonlyArray<Client> = [
  {
    name: `Claude Code ${clients["@anthropic-ai/claude-code"]}`,
    target: (model, vendor) => Anthropic.model(model, { keys, baseUrl: `${vendor}/v1` }),
    run: (url) => ({
      args: [
        join(modules, "@anthropic-ai/claude-code/cli-wrapper.cjs"),
        "-p",
        prompt,
        "--allowedTools",
        "Bash"
      ],
      env: {
        ANTHROPIC_BASE_URL: url,
        ANTHROPIC_API_KEY: "none",
        ANTHROPIC_MODEL: model,
        ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
        DISABLE_AUTOUPDATER: "1"
      }
    })
  },
  {
    name: `Codex ${clients["@openai/codex"]}`,
    target: (model, vendor) => OpenAi.model(model, { keys, baseUrl: `${vendor}/v1` }),
    run: (url) => ({
      args: [
        join(modules, "@openai/codex/bin/codex.js"),
        "exec",
        "--skip-git-repo-check",
        // The command runs in an empty folder, and is our own.
        "--sandbox",
        "danger-full-access",
        "--model",
        model,
        "--config",
        'model_provider="outlast"',
        "--config",
        `model_providers.outlast={ name = "Outlast", base_url = "${url}/v1", wire_api = "responses", env_key = "OUTLAST_KEY" }`,
        prompt
      ],
      env: { OUTLAST_KEY: "none" }
    })
  }
]

interface Ended {
  readonly code: number | null
  readonly output: string
  readonly millis: number
}

/** Runs a client in a home of its own. It gets two minutes. */
const ran = ({ run }: Client, url: string): Promise<Ended> =>
  new Promise((resolve) => {
    const folder = mkdtempSync(join(tmpdir(), "gateway-clients-"))
    const { args, env } = run(url)
    const begun = performance.now()
    const child = spawn(process.execPath, args, {
      cwd: folder,
      env: { PATH: process.env["PATH"], HOME: folder, CODEX_HOME: folder, ...env },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: 120_000
    })
    let output = ""
    child.stdout.on("data", (chunk) => (output += String(chunk)))
    child.stderr.on("data", (chunk) => (output += String(chunk)))
    child.on("close", (code) => resolve({ code, output, millis: performance.now() - begun }))
  })

/** What is wrong with the run; empty: nothing. */
const problems = ({ code, output }: Ended, vendor: Vendor.Vendor): ReadonlyArray<string> => [
  ...(code === 0 ? [] : [`it ended with ${code}`]),
  ...(output.includes(Vendor.answer) ? [] : ["the answer is missing"]),
  ...(vendor.of("first").length > 0 ? [] : ["the first vendor was not asked"]),
  ...(vendor.of("second").some(({ body }) => JSON.stringify(body).includes(Vendor.printed))
    ? []
    : ["no request has the result of the tool"])
]

const job = (client: Client, status: number) =>
  Effect.scoped(
    Effect.gen(function* () {
      const vendor = yield* Vendor.start(status)
      const target = (name: string) => client.target(name, vendor.url)
      const gateway = yield* Gateway.make({
        routes: { [model]: { chain: [target("first"), target("second")] } }
      })
      const { url } = yield* Server.listen(gateway, { drain: 0 })
      const ended = yield* Effect.promise(() => ran(client, url))
      const wrong = problems(ended, vendor)
      const asked = `${vendor.of("first").length} requests to the first vendor, ${vendor.of("second").length} to the second`
      const took = `${(ended.millis / 1_000).toFixed(1)} s`
      yield* Console.log(
        `${client.name}, first vendor HTTP ${status}: ${wrong.length === 0 ? "works" : wrong.join(", ")} (${took}; ${asked})`
      )
      if (wrong.length > 0) yield* Console.log(ended.output.slice(-2_000))
      return wrong.length === 0
    })
  )

installed()
const results = await Effect.runPromise(
  Effect.forEach(
    all.flatMap((client) => [529, 401].map((status) => ({ client, status }))),
    ({ client, status }) => job(client, status)
  )
)
if (!results.every(Boolean)) process.exitCode = 1

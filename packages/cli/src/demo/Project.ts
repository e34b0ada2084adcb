/**
 * The job of the demo: a small project with a failing test in a temporary folder, and the tools to fix it.
 *
 * `verify` checks the result independently of the agent: it restores the original tests and runs them in a fresh
 * process.
 */
import { jsonSchema, tool } from "ai"
import type { ToolSet } from "ai"
import { Effect, FileSystem, Path, Stream } from "effect"
import type { PlatformError, Scope } from "effect"
import { ChildProcess, ChildProcessSpawner } from "effect/process"

const source = `/** Prices are in cents. */
export const subtotal = (items) => items.reduce((sum, item) => sum + item.price * item.quantity, 0)

/** \`percent\` off, rounded to whole cents. */
export const discount = (amount, percent) => Math.round(amount * (1 - percent))

export const total = (items, percent = 0) => discount(subtotal(items), percent)
`

const tests = `import assert from "node:assert/strict"
import { test } from "node:test"
import { discount, subtotal, total } from "../src/cart.mjs"

const items = [{ price: 1250, quantity: 2 }, { price: 999, quantity: 1 }]

test("adds up prices and quantities", () => assert.equal(subtotal(items), 3499))
test("takes the percentage off", () => assert.equal(discount(1000, 15), 850))
test("gives nothing off by default", () => assert.equal(total(items), 3499))
test("takes the discount off the whole cart", () => assert.equal(total(items, 10), 3149))
`

const files = {
  "src/cart.mjs": source,
  "test/cart.test.mjs": tests,
  "README.md": "# A shopping cart\n"
} as const

export const task =
  "One test of this project fails. Find out why, mend the code (not the test), and show that all tests pass."

export interface Project {
  readonly folder: string
  /** True when the original tests pass in a fresh process. */
  readonly verify: Effect.Effect<boolean>
}

/** What a project needs from its platform. */
export type Services = FileSystem.FileSystem | Path.Path | ChildProcessSpawner.ChildProcessSpawner

/** Creates a fresh copy of the project in a temporary folder, which is removed with the scope. */
export const make: Effect.Effect<Project, PlatformError.PlatformError, Services | Scope.Scope> = Effect.gen(
  function* () {
    const fs = yield* FileSystem.FileSystem
    const spawner = yield* ChildProcessSpawner.ChildProcessSpawner
    const path = yield* Path.Path
    const folder = yield* fs.makeTempDirectoryScoped({ prefix: "outlast-demo-" })
    for (const [name, content] of Object.entries(files)) {
      yield* fs.makeDirectory(path.dirname(path.join(folder, name)), { recursive: true })
      yield* fs.writeFileString(path.join(folder, name), content)
    }
    const verify = fs.writeFileString(path.join(folder, "test/cart.test.mjs"), tests).pipe(
      Effect.andThen(runTests(folder)),
      Effect.provideService(ChildProcessSpawner.ChildProcessSpawner, spawner),
      Effect.map(({ exitCode }) => exitCode === 0),
      Effect.orElseSucceed(() => false)
    )
    return { folder, verify }
  }
)

/** Maximum length of test output for the agent, in characters. */
const maxOutput = 4_000

/** Time limit of the tests. They take a second, but an edit may make them run without an end. */
const testLimit = "20 seconds"

/** Runs code written by a model. It gets no environment variables, and a time limit. */
const runTests = (folder: string) =>
  Effect.gen(function* () {
    const spawner = yield* ChildProcessSpawner.ChildProcessSpawner
    const command = ChildProcess.make(process.execPath, ["--test", "--test-reporter=tap"], {
      cwd: folder,
      env: { PATH: process.env["PATH"] },
      extendEnv: false
    })
    const handle = yield* spawner.spawn(command)
    const output = yield* handle.all.pipe(Stream.decodeText(), Stream.mkString)
    return { exitCode: Number(yield* handle.exitCode), output: output.slice(0, maxOutput) }
  }).pipe(
    Effect.scoped,
    Effect.timeoutOrElse({
      duration: testLimit,
      orElse: () => Effect.succeed({ exitCode: 124, output: `The tests did not end within ${testLimit}.` })
    })
  )

const noParameters = jsonSchema<Record<string, never>>({ type: "object", properties: {} })

const texts = <Names extends string>(...names: ReadonlyArray<Names>) =>
  jsonSchema<Readonly<Record<Names, string>>>({
    type: "object",
    properties: Object.fromEntries(names.map((name) => [name, { type: "string" }])),
    required: [...names],
    additionalProperties: false
  })

/**
 * The tools for working on the project: on real files of `folder` and nothing outside it. Reports each call to
 * `used`. A mistake in a call is a text that the model can read.
 */
export const tools = (
  folder: string,
  used: (tool: string) => Effect.Effect<void>
): Effect.Effect<ToolSet, never, Services> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const services = yield* Effect.context<Services>()
    const run = <A>(name: string, effect: Effect.Effect<A, string, Services>): Promise<A | string> =>
      Effect.runPromiseWith(services)(
        // The SDK calls a tool while its stream goes on. The pause lets the text before the call be shown first.
        Effect.sleep("20 millis").pipe(
          Effect.andThen(used(name)),
          Effect.andThen(Effect.catch(effect, (mistake) => Effect.succeed(mistake)))
        )
      )
    const inside = (name: string) => {
      const full = path.resolve(folder, name)
      return full.startsWith(folder + path.sep)
        ? Effect.succeed(full)
        : Effect.fail(`${name} is outside the project. Use a path relative to its root, like src/cart.mjs.`)
    }
    const read = (name: string) =>
      Effect.flatMap(inside(name), (full) =>
        Effect.mapError(
          fs.readFileString(full),
          () => `There is no file ${name}. list_files shows what there is.`
        )
      )
    const list = fs.readDirectory(folder, { recursive: true }).pipe(
      Effect.map((names) => names.filter((name) => path.extname(name) !== "").sort()),
      Effect.orDie
    )
    const edit = (name: string, find: string, replace: string) =>
      Effect.gen(function* () {
        const full = yield* inside(name)
        const parts = (yield* read(name)).split(find)
        if (find === "" || parts.length !== 2) {
          return yield* Effect.fail(
            `\`find\` must occur exactly once in ${name}; it occurs ${parts.length - 1} times.`
          )
        }
        yield* Effect.orDie(fs.writeFileString(full, parts.join(replace)))
        return `Edited ${name}.`
      })
    return {
      list_files: tool({
        description: "Lists the files of the project.",
        inputSchema: noParameters,
        execute: () => run("list_files", list)
      }),
      read_file: tool({
        description: "Reads a file of the project.",
        inputSchema: texts("path"),
        execute: ({ path }) => run(`read_file ${path}`, read(path))
      }),
      edit_file: tool({
        description: "Replaces one piece of text in a file. `find` must occur exactly once.",
        inputSchema: texts("path", "find", "replace"),
        execute: ({ path, find, replace }) => run(`edit_file ${path}`, edit(path, find, replace))
      }),
      run_tests: tool({
        description: "Runs the tests of the project and gives their output.",
        inputSchema: noParameters,
        execute: () => run("run_tests", Effect.orDie(runTests(folder)))
      })
    }
  })

/**
 * Measures whether nudges change what a model does.
 *
 *     npm run nudge -w examples
 *     ANTHROPIC_API_KEY=… npm run nudge -w examples -- --provider anthropic --runs 10
 *
 * Each task has a tool that cannot help: a search without results, an edit that is always refused, a job that never
 * starts, pages that are all the first one. An agent does each task with nudges (`loops: "tell"`) and without
 * (`loops: false`), and nothing is blocked. The rows show how many tool calls a run made, and how many runs ended by
 * themselves before the limit of 20 calls. By default two scripted models do the tasks: one follows a nudge, one does
 * not. With `--provider` a real model of that provider does them, and its calls cost money.
 */
import { Console, Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Failover, SafetyGuard } from "@outlast/agent"
import { Registry } from "@outlast/providers"
import { ScriptedModel } from "@outlast/testing"

const text = { success: Schema.String }
const Kit = Toolkit.make(
  Tool.make("search", { ...text, parameters: Schema.Struct({ query: Schema.String }) }),
  Tool.make("edit", { ...text, parameters: Schema.Struct({ old: Schema.String, new: Schema.String }) }),
  Tool.make("job_status", { ...text, parameters: Schema.Struct({ id: Schema.Finite }) }),
  Tool.make("list_users", { ...text, parameters: Schema.Struct({ page: Schema.Finite }) })
)
const Handlers = Kit.toLayer({
  search: () => Effect.succeed("No results. The index has 41,233 documents, and none of them matches."),
  edit: () => Effect.succeed("Error: the old text was not found in the file. Nothing was changed."),
  job_status: () => Effect.succeed("queued, position 1"),
  list_users: () => Effect.succeed("Ann (admin), Bob (editor), Cleo (editor), Dan (guest). More pages: yes.")
})

const tasks = [
  { name: "search", prompt: "Find our contract with the company Fjord 7 with the tool search." },
  { name: "edit", prompt: "Change the port in the config file from 80 to 8080 with the tool edit." },
  { name: "job_status", prompt: "Tell me when job 7 is done." },
  { name: "list_users", prompt: "List all users with the tool list_users, page by page." }
] as const

/** Arguments of the scripted models: they change where a model would change them. */
const params = (task: string, turn: number) =>
  ({
    search: { query: `contract ${turn}` },
    edit: { old: `port ${turn}`, new: "8080" },
    list_users: { page: turn }
  })[task] ?? { id: 7 }

/** A model that makes the call of the task again and again, or follows the nudge. */
const scripted = (follows: boolean) =>
  Effect.map(
    ScriptedModel.make({
      provider: "anthropic",
      model: follows ? "follows" : "does not",
      plan: {
        answers: ({ turn, messages }) => {
          const said = JSON.stringify(messages)
          const { name } = tasks.find(({ prompt }) => said.includes(prompt)) ?? tasks[0]
          return follows && said.includes("do something else")
            ? { text: "This does not get me further." }
            : { toolCalls: [{ name, params: params(name, turn) }] }
        }
      }
    }),
    (target) => Failover.layer([target])
  )

const real = (name: string) => {
  const usual = Registry.providers.find(({ provider }) => provider === name)?.usual
  return usual === undefined
    ? Effect.die(new Error(`--provider ${name} is unknown.`))
    : Effect.succeed(Failover.layer([usual.target(usual.model)]))
}

/** Number of tool calls of a run, and whether the model ended it. */
const attempt = (prompt: string, loops: "tell" | false) =>
  Agent.run({ prompt, toolkit: Kit, maxTurns: 40 }).pipe(
    SafetyGuard.run({ toolCalls: 20, loops }),
    Effect.map(({ toolCalls }) => ({ calls: toolCalls, ended: true })),
    Effect.catchTag("SafetyStop", ({ counts }) => Effect.succeed({ calls: counts.toolCalls, ended: false }))
  )

const measure = (name: string, runs: number) =>
  Effect.gen(function* () {
    for (const { name: task, prompt } of tasks) {
      const cells: Array<string> = []
      for (const loops of [false, "tell"] as const) {
        const all = yield* Effect.all(Array.from({ length: runs }, () => attempt(prompt, loops)))
        const calls = all.reduce((sum, one) => sum + one.calls, 0) / runs
        const ended = all.filter((one) => one.ended).length
        cells.push(
          `${loops === false ? "without" : "with"} nudges ${calls.toFixed(1)} calls, ${ended} of ${runs} ended`
        )
      }
      yield* Console.log(`${name}, ${task}: ${cells.join("; ")}`)
    }
  })

const option = (name: string): string | undefined => {
  const at = process.argv.indexOf(name)
  return at < 0 ? undefined : process.argv[at + 1]
}

const provider = option("--provider")
const runs = Number(option("--runs") ?? 1)
const models =
  provider === undefined
    ? { follows: scripted(true), "does not": scripted(false) }
    : { [provider]: real(provider) }
for (const [name, model] of Object.entries(models)) {
  const layer = await Effect.runPromise(model)
  await Effect.runPromise(measure(name, runs).pipe(Effect.provide([Handlers, layer])))
}

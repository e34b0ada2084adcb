/**
 * Permissions for tools: a table that allows, refuses, or asks a person, by tool and argument.
 *
 *     npm run permissions -w examples
 *
 * The guard enforces the table. The model is informed of a refusal and cannot bypass it. Waiting for the person does
 * not count as active time. A second run shows a cap on one tool, and the result that the host gets when the cap is
 * reached.
 */
import { Console, Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Failover, SafetyGuard } from "@outlast/agent"
import { ScriptedModel } from "@outlast/testing"

const Kit = Toolkit.make(
  Tool.make("read_file", { parameters: Schema.Struct({ path: Schema.String }), success: Schema.String }),
  Tool.make("run_command", { parameters: Schema.Struct({ command: Schema.String }), success: Schema.String })
)
const Handlers = Kit.toLayer({
  read_file: ({ path }) => Effect.as(Console.log(`read ${path}`), "Push when the tests pass."),
  run_command: ({ command }) => Effect.as(Console.log(`ran ${command}`), `${command}: ok`)
})

interface Rule {
  readonly tool: string
  /** Pattern for the arguments as JSON. Default: any arguments. */
  readonly when?: RegExp
  readonly then: "allow" | "ask" | "refuse"
}

/** The first matching rule applies. A person is asked about calls without a rule. */
const rules: ReadonlyArray<Rule> = [
  { tool: "read_file", when: /\.env|id_rsa/, then: "refuse" },
  { tool: "read_file", then: "allow" },
  { tool: "run_command", when: /rm -rf/, then: "refuse" },
  { tool: "run_command", when: /"(ls|npm test)"/, then: "allow" }
]

/** In a real program: a message in a chat, or a dialogue. */
const askPerson = (question: string) =>
  Effect.sleep("10 millis").pipe(Effect.andThen(Console.log(`asked: ${question} yes`)), Effect.as(true))

const permit: NonNullable<SafetyGuard.Options["permit"]> = (call) =>
  Effect.gen(function* () {
    const args = JSON.stringify(call.arguments)
    const rule = rules.find(({ tool, when }) => tool === call.tool && (when?.test(args) ?? true))
    switch (rule?.then ?? "ask") {
      case "allow":
        return "allow"
      case "refuse":
        return { refuse: "the rules of this project forbid it" }
      case "ask": {
        const { command = call.tool } = call.arguments as { readonly command?: string }
        return (yield* askPerson(`may it run "${command}"?`)) ? "allow" : { refuse: "the user said no" }
      }
    }
  })

const model = (answers: ReadonlyArray<readonly [string, string, string] | string>) =>
  Effect.map(
    ScriptedModel.make({
      provider: "anthropic",
      model: "claude-sonnet-4-5",
      plan: {
        answers: answers.map((answer) =>
          typeof answer === "string"
            ? { text: answer }
            : { toolCalls: [{ name: answer[0], params: { [answer[1]]: answer[2] } }] }
        )
      }
    }),
    (target) => Failover.layer([target])
  )

const main = Effect.gen(function* () {
  const careful = yield* model([
    ["read_file", "path", "notes.txt"],
    ["read_file", "path", ".env"],
    ["run_command", "command", "rm -rf /"],
    ["run_command", "command", "git push"],
    "What I may do is done."
  ])
  const outcome = yield* Agent.run({ prompt: "Publish it.", toolkit: Kit }).pipe(
    SafetyGuard.run({ permit }),
    Effect.provide([Handlers, careful])
  )
  yield* Console.log(outcome.text)

  const busy = yield* model(
    ["a", "b", "c"].map((file) => ["run_command", "command", `touch ${file}`] as const)
  )
  yield* Agent.run({ prompt: "Make files.", toolkit: Kit }).pipe(
    SafetyGuard.run({ tools: { run_command: 2 } }),
    Effect.catchTag("SafetyStop", (stop) => Console.log(stop.message)),
    Effect.provide([Handlers, busy])
  )
})

await Effect.runPromise(main)

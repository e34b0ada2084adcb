/**
 * Checks a tool call before it may run: a tool of that name exists, its arguments are JSON, and they fit its schema.
 *
 * What is wrong is said to the model, with the place and with what is expected there, so that it can call again. It is
 * no failure of the provider. The arguments are decoded by the tool's own schema; a tool that has a JSON Schema only,
 * such as that of an MCP server, is checked by `JsonShape`.
 */
import { Effect, Schema } from "effect"
import { Tool } from "effect/ai"
import * as JsonShape from "../conversation/JsonShape.ts"

/** A call that may run. */
export interface Checked {
  readonly tool: Tool.Any
  /** The arguments, decoded. */
  readonly params: unknown
}

/** The call's tool and arguments. Fails with a text for the model. */
export const check = (
  tools: Readonly<Record<string, Tool.Any>>,
  { name, params }: { readonly name: string; readonly params: unknown }
): Effect.Effect<Checked, string> => {
  const tool = Object.hasOwn(tools, name) ? tools[name] : undefined
  if (tool === undefined) {
    const names = Object.keys(tools)
    const offered = names.length === 0 ? "No tool is available." : `The tools are: ${names.join(", ")}.`
    return Effect.fail(`The call was not run: there is no tool ${JSON.stringify(name)}. ${offered}`)
  }
  // Only arguments that could not be read are a text.
  if (typeof params === "string") return Effect.fail(wrong(notJson(params)))
  if (Tool.isDynamic(tool) && tool.jsonSchema !== undefined) {
    const misfit = JsonShape.misfit(tool.jsonSchema, params)
    return misfit === undefined
      ? Effect.succeed({ tool, params })
      : Effect.fail(wrong(JsonShape.inWords(misfit)))
  }
  return Schema.decodeUnknownEffect(tool.parametersSchema)(params, { errors: "all" }).pipe(
    Effect.map((decoded) => ({ tool, params: decoded })),
    Effect.mapError(({ message }) => wrong(message))
    // The schema's services are the handler's, which `Agent.run` asks for.
  ) as Effect.Effect<Checked, string>
}

const wrong = (problem: string): string =>
  `The call was not run, because its arguments are wrong. ${problem.slice(0, maxProblem)}`

/** Characters; a schema may have many fields. */
const maxProblem = 2_000

const notJson = (text: string): string => {
  try {
    JSON.parse(text)
    return "Expected object"
  } catch (error) {
    return `They are not valid JSON: ${error instanceof Error ? error.message : "unreadable"}\nExpected a JSON object that fits the tool's schema`
  }
}

/**
 * Checks a tool call before it may run: a tool of that name exists, its arguments are JSON, and they match its
 * schema.
 *
 * An invalid call is reported to the model, with the position and the expected value, so that the model can correct
 * the call. The provider is not blamed for it. The tool's own schema decodes the arguments. A tool with only a JSON
 * Schema, such as that of an MCP server, is checked by `JsonShape`.
 */
import { Effect, Schema } from "effect"
import { Tool } from "effect/ai"
import * as JsonShape from "../conversation/JsonShape.ts"

/** A valid call. */
export interface Checked {
  readonly tool: Tool.Any
  /** The decoded arguments. */
  readonly params: unknown
}

/** Resolves the call's tool and decodes its arguments. Fails with a text for the model. */
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
  // Arguments are a string only if they could not be parsed.
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
    // The services of the schema are those of the handler, which the type of `Agent.run` requires.
  ) as Effect.Effect<Checked, string>
}

const wrong = (problem: string): string =>
  `The call was not run, because its arguments are wrong. ${problem.slice(0, maxProblem)}`

/** Length of the problem in the message, at most, in characters. A schema may have many fields. */
const maxProblem = 2_000

const notJson = (text: string): string => {
  try {
    JSON.parse(text)
    return "Expected object"
  } catch (error) {
    return `They are not valid JSON: ${error instanceof Error ? error.message : "unreadable"}\nExpected a JSON object that fits the tool's schema`
  }
}

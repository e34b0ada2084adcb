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
export const check = (tools: Tools, call: Unchecked): Effect.Effect<Checked, string> => {
  const problem = misfit(tools, call)
  if (problem !== undefined) return Effect.fail(problem)
  const { params } = call
  // A tool that does not exist is a misfit.
  const tool = tools[call.name] as Tool.Any
  if (Tool.isDynamic(tool) && tool.jsonSchema !== undefined) return Effect.succeed({ tool, params })
  return Schema.decodeUnknownEffect(tool.parametersSchema)(params, { errors: "all" }).pipe(
    Effect.map((decoded) => ({ tool, params: decoded })),
    Effect.mapError(({ message }) => wrong(message))
    // The services of the schema are those of the handler, which the type of `Agent.run` requires.
  ) as Effect.Effect<Checked, string>
}

type Tools = Readonly<Record<string, Tool.Any>>

/** A call as the model made it. */
interface Unchecked {
  readonly name: string
  readonly params: unknown
}

/**
 * The text for the model when there is no such tool or the arguments cannot be decoded. `undefined` leaves the arguments
 * to the schema of the tool, which decodes them when the call runs.
 */
export const misfit = (tools: Tools, { name, params }: Unchecked): string | undefined => {
  const tool = Object.hasOwn(tools, name) ? tools[name] : undefined
  if (tool === undefined) {
    const names = Object.keys(tools)
    const offered = names.length === 0 ? "No tool is available." : `The tools are: ${names.join(", ")}.`
    return `The call was not run: there is no tool ${JSON.stringify(name)}. ${offered}`
  }
  // Arguments are a string only if they could not be parsed.
  if (typeof params === "string") return wrong(notJson(params))
  if (!Tool.isDynamic(tool) || tool.jsonSchema === undefined) return undefined
  const problem = JsonShape.misfit(tool.jsonSchema, params)
  return problem === undefined ? undefined : wrong(JsonShape.inWords(problem))
}

/** The text for the model when the arguments do not match the schema of the tool. */
export const wrong = (problem: string): string =>
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

/** Rules of Gemini about the fields of a request. */
import { duplicate, firstOf } from "../Rule.ts"
import { knownConfig, knownFields, snake } from "./body.ts"
import type { Body } from "./body.ts"
import { isNewer } from "./Input.ts"
import type { GoogleRule } from "./Input.ts"

const functionName = /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$/
const nameRules =
  "Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), " +
  "colons (:), or dashes (-), with a maximum length of 128."

export const requestRules: ReadonlyArray<GoogleRule> = [
  {
    name: "unknown-field",
    check: ({ body: { raw } }) => {
      const field = Object.keys(raw).find((name) => !knownFields.has(name))
      return field === undefined ? undefined : unknownName(field)
    }
  },
  {
    name: "unknown-config",
    check: ({ body: { raw } }) => {
      const field = Object.keys(raw["generationConfig"] ?? {}).find((name) => !knownConfig.has(name))
      return field === undefined ? undefined : unknownName(field, " at 'generation_config'")
    }
  },
  {
    name: "function-name",
    check: ({ body }) =>
      firstOf(declarationsOf(body), ({ name, place }) =>
        functionName.test(name)
          ? undefined
          : `* GenerateContentRequest.${place}.name: Invalid function name. ${nameRules}`
      )
  },
  {
    name: "function-names-unique",
    check: ({ body }) => {
      const twice = duplicate(declarationsOf(body).map(({ name }) => name))
      return twice === undefined ? undefined : `Duplicate function declaration found: ${twice}`
    }
  },
  {
    name: "json-with-tools",
    check: ({ body, model }) => {
      const asksJson = body.generationConfig?.responseMimeType === "application/json"
      if (!asksJson || declarationsOf(body).length === 0) return undefined
      const mode = body.toolConfig?.functionCallingConfig?.mode ?? "AUTO"
      return isNewer(model) && mode === "AUTO"
        ? undefined
        : "Function calling with a response mime type: 'application/json' is unsupported"
    }
  },
  {
    name: "max-output-tokens",
    check: ({ body: { generationConfig } }) =>
      (generationConfig?.maxOutputTokens ?? 1) > 0
        ? undefined
        : "* GenerateContentRequest.generation_config.max_output_tokens: max_output_tokens must be positive"
  },
  {
    name: "thinking-level",
    check: ({ body: { generationConfig }, model }) =>
      generationConfig?.thinkingConfig?.thinkingLevel === undefined || isNewer(model)
        ? undefined
        : "Thinking level is not supported for this model."
  },
  {
    name: "thinking-one",
    check: ({ body: { generationConfig } }) => {
      const { thinkingBudget, thinkingLevel } = generationConfig?.thinkingConfig ?? {}
      return thinkingBudget === undefined || thinkingLevel === undefined
        ? undefined
        : "You can only set only one of thinking budget and thinking level."
    }
  },
  {
    name: "window",
    check: ({ tokens, window }) =>
      window !== undefined && tokens > window
        ? `The input token count (${tokens}) exceeds the maximum number of tokens allowed (${window}).`
        : undefined
  }
]

const unknownName = (field: string, place = ""): string =>
  `Invalid JSON payload received. Unknown name "${snake(field)}"${place}: Cannot find field.`

const declarationsOf = ({ tools = [] }: Body) =>
  tools.flatMap(({ functionDeclarations = [] }, i) =>
    functionDeclarations.map(({ name }, j) => ({ name, place: `tools[${i}].function_declarations[${j}]` }))
  )

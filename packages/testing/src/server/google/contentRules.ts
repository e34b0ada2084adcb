/**
 * Rules of Gemini about the contents: no empty contents, the order of roles, and one content of function responses for
 * each turn of function calls, with as many responses as calls.
 */
import { firstOf } from "../Rule.ts"
import { callsIn, dataFields, responsesIn, snake } from "./body.ts"
import type { Content } from "./body.ts"
import type { GoogleRule } from "./Input.ts"

const unequal =
  "Please ensure that the number of function response parts is equal to the number of function call parts of " +
  "the function call turn."

export const contentRules: ReadonlyArray<GoogleRule> = [
  {
    name: "contents-empty",
    check: ({ body: { contents } }) =>
      contents.length === 0 ? "* GenerateContentRequest.contents: contents is not specified" : undefined
  },
  {
    name: "role",
    check: ({ body: { contents } }) =>
      contents.every(({ role }) => role === "user" || role === "model")
        ? undefined
        : "Please use a valid role: user, model."
  },
  {
    name: "parts-empty",
    check: ({ body: { contents } }) =>
      firstOf(contents, ({ parts }, i) =>
        parts.length === 0
          ? `* GenerateContentRequest.contents[${i}].parts: contents.parts must not be empty.`
          : undefined
      )
  },
  {
    name: "part-data",
    check: ({ body: { contents } }) =>
      firstOf(contents, ({ parts }, i) =>
        firstOf(parts, (part, j) => {
          const [first, second] = dataFields.filter((field) => part[field] !== undefined)
          const place = `contents[${i}].parts[${j}]`
          if (first === undefined) {
            return `* GenerateContentRequest.${place}.data: required oneof field 'data' must have one initialized field`
          }
          return second === undefined
            ? undefined
            : `Invalid value at '${place}' (oneof), oneof field 'data' is already set. Cannot set '${snake(second)}'`
        })
      )
  },
  {
    name: "text-empty",
    disputed: true,
    check: ({ body: { contents } }) =>
      contents.some(({ role, parts }) => role === "user" && parts.every(({ text }) => text === ""))
        ? "Unable to submit request because it must have a text parameter. Add a text parameter and try again."
        : undefined
  },
  {
    name: "call-place",
    check: ({ body: { contents } }) =>
      firstOf(contents, (content, i) =>
        callsIn(content).length > 0 && contents[i - 1]?.role !== "user"
          ? "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
          : undefined
      )
  },
  {
    name: "responses-count",
    check: ({ body: { contents } }) =>
      firstOf(contents, (content, i) => {
        const calls = callsIn(content).length
        const answer = contents[i + 1]
        return calls === 0 || calls === (answer === undefined ? 0 : responsesIn(answer).length)
          ? undefined
          : unequal
      })
  },
  {
    name: "response-place",
    check: ({ body: { contents } }) =>
      firstOf(contents, (content, i) =>
        responsesIn(content).length > 0 && callsBefore(contents, i).length === 0
          ? "Please ensure that function response turn comes immediately after a function call turn."
          : undefined
      )
  },
  {
    name: "responses-name",
    disputed: true,
    check: ({ body: { contents } }) =>
      firstOf(contents, (content, i) => {
        const asked = callsBefore(contents, i)
        const answered = responsesIn(content)
        const fits = asked.every((call) => answered.some((response) => answers(response, call)))
        return answered.length === 0 || fits ? undefined : unequal
      })
  },
  {
    name: "last-turn",
    disputed: true,
    check: ({ body: { contents } }) =>
      contents.at(-1)?.role === "model"
        ? "Please ensure that multiturn requests end with a user turn or a function response."
        : undefined
  }
]

const callsBefore = (contents: ReadonlyArray<Content>, at: number) => {
  const before = contents[at - 1]
  return before === undefined ? [] : callsIn(before)
}

interface Named {
  readonly name: string
  readonly id?: string
}

/** Matches by name, and by id if both have one. */
const answers = (response: Named, call: Named): boolean =>
  response.name === call.name &&
  (response.id === undefined || call.id === undefined || response.id === call.id)

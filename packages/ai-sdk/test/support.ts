/**
 * A server that plays one provider, and tools of a program.
 */
import { createAnthropic } from "@ai-sdk/anthropic"
import { createGoogle } from "@ai-sdk/google"
import { createOpenAI } from "@ai-sdk/openai"
import type { FaultPlan } from "@outlast/testing"
import { FakeProvider } from "@outlast/testing"
import { jsonSchema, tool } from "ai"

export type Wire = "anthropic" | "openai" | "google"
export const wires: ReadonlyArray<Wire> = ["anthropic", "openai", "google"]

/** A server by a plan, and a model of the AI SDK that asks it in one wire format. */
export const played = async (plan: FaultPlan.FaultPlan, wire: Wire = "anthropic") => {
  const server = await FakeProvider.start({ plan })
  const settings = { apiKey: "sk-0123456789abcdef-key", baseURL: server.baseUrl(wire) }
  const models = {
    anthropic: () => createAnthropic(settings)("claude-sonnet-4-5"),
    openai: () => createOpenAI(settings).responses("gpt-5.1"),
    google: () => createGoogle(settings)("gemini-2.5-pro")
  }
  return { server, model: models[wire](), [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() }
}

/** A tool that notes its queries. */
export const search = (ran: Array<string> = [], found: (query: string) => string = () => "Nothing.") =>
  tool({
    description: "Searches the files of the project.",
    inputSchema: jsonSchema<{ query: string }>({
      type: "object",
      properties: { query: { type: "string" } },
      required: ["query"],
      additionalProperties: false
    }),
    execute: async ({ query }) => {
      ran.push(query)
      return found(query)
    }
  })

/** The same call, `times` times, one in each turn. */
export const asking = (times: number, query = "TODO"): ReadonlyArray<FaultPlan.Answer> => [
  ...Array.from({ length: times }, () => ({ toolCalls: [{ name: "search", params: { query } }] })),
  { text: "Done." }
]

export const caught = async (promise: PromiseLike<unknown>): Promise<unknown> => {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error("It did not fail.")
}

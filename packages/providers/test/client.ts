/**
 * A client of the AI SDK's interface that records its calls and gives scripted answers.
 */
import { AiSdk } from "@outlast/providers"
import type * as Spec from "../src/aisdk/Spec.ts"

export const usage: Spec.Usage = {
  inputTokens: { total: 5, noCache: 3, cacheRead: 2, cacheWrite: undefined },
  outputTokens: { total: 4, text: 3, reasoning: 1 }
}
export const stop: Spec.FinishReason = { unified: "stop", raw: "end_turn" }
export const finish: Spec.StreamPart = { type: "finish", finishReason: stop, usage }

export interface Client {
  readonly version?: "v3" | "v4"
  readonly content?: ReadonlyArray<Spec.Content>
  readonly result?: Partial<Spec.GenerateResult>
  readonly stream?: ReadableStream<Spec.StreamPart>
  /** Opens the stream, in place of `stream`. */
  readonly open?: () => Promise<Spec.StreamResult>
}

export const setup = ({ version = "v4", content = [], result, stream, open }: Client = {}) => {
  const calls: Array<Spec.CallOptions> = []
  const spec = AiSdk.model({
    provider: "acme",
    model: "m",
    providerOptions: { acme: { speed: "fast" } },
    create: () => ({
      specificationVersion: version,
      provider: "acme",
      modelId: "m",
      doGenerate: async (options) => {
        calls.push(options)
        return { content, finishReason: stop, usage, ...result }
      },
      doStream: async (options) => {
        calls.push(options)
        if (open !== undefined) return open()
        return { stream: stream ?? ReadableStream.from<Spec.StreamPart>([finish]) }
      }
    })
  })
  return { spec, calls }
}

export const streamOf = (parts: ReadonlyArray<Spec.StreamPart>) => ReadableStream.from(parts)

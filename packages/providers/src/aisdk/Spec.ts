/**
 * The parts of the AI SDK's provider interface that this package uses.
 *
 * The types are structural: a `LanguageModelV3` or `LanguageModelV4` fits without an import, and so does
 * any object with the same two methods. Where the two versions differ (the data of files), the type has both
 * shapes, and `specificationVersion` says which one a model takes.
 */
import type { JSONObject as ProviderJson, SharedV4Warning } from "@ai-sdk/provider"
import type { Schema } from "effect"

/** A model of an AI SDK provider package. Each call makes one HTTP request, without retries. */
export interface SpecModel {
  readonly specificationVersion: "v3" | "v4"
  readonly provider: string
  readonly modelId: string
  doGenerate(options: CallOptions): PromiseLike<GenerateResult>
  doStream(options: CallOptions): PromiseLike<StreamResult>
}

/** JSON as the AI SDK types it. Undefined fields are not sent. */
export type Json = Schema.Json | ReadonlyArray<Json> | JsonObject
interface JsonObject {
  readonly [key: string]: Json | undefined
}

/** Provider options: by the name of the provider, the fields that it takes. */
export type Namespaced = Readonly<Record<string, JsonObject>>

/** Settings for every call to a model. A client leaves out settings that its model does not know. */
export interface CallSettings {
  readonly temperature?: number | undefined
  readonly topP?: number | undefined
  readonly topK?: number | undefined
  readonly presencePenalty?: number | undefined
  readonly frequencyPenalty?: number | undefined
  readonly stopSequences?: ReadonlyArray<string> | undefined
  readonly seed?: number | undefined
  /** How much the model thinks. Only clients of version 4 read this field. */
  readonly reasoning?:
    | "provider-default"
    | "none"
    | "minimal"
    | "low"
    | "medium"
    | "high"
    | "xhigh"
    | "max"
    | undefined
}

export interface CallOptions extends CallSettings {
  readonly prompt: ReadonlyArray<Message>
  readonly maxOutputTokens?: number | undefined
  readonly responseFormat?:
    | { readonly type: "text" }
    | { readonly type: "json"; readonly name?: string | undefined; readonly schema?: object | undefined }
    | undefined
  readonly tools?: ReadonlyArray<FunctionTool | ProviderTool> | undefined
  readonly toolChoice?: ToolChoice | undefined
  readonly abortSignal?: AbortSignal | undefined
  readonly includeRawChunks?: boolean | undefined
  readonly headers?: Readonly<Record<string, string | undefined>> | undefined
  readonly providerOptions?: Namespaced | undefined
}

export interface FunctionTool {
  readonly type: "function"
  readonly name: string
  readonly description?: string | undefined
  readonly inputSchema: object
  readonly strict?: boolean | undefined
  readonly inputExamples?: ReadonlyArray<object> | undefined
  readonly providerOptions?: Namespaced | undefined
}

/** A tool that runs at the provider. */
export interface ProviderTool {
  readonly type: "provider"
  readonly id: `${string}.${string}`
  readonly name: string
  readonly args: Readonly<Record<string, unknown>>
}

export type ToolChoice =
  | { readonly type: "auto" | "none" | "required" }
  | { readonly type: "tool"; readonly toolName: string }

interface WithOptions {
  readonly providerOptions?: Namespaced | undefined
}

export type Message =
  | (WithOptions & { readonly role: "system"; readonly content: string })
  | (WithOptions & { readonly role: "user"; readonly content: ReadonlyArray<TextPart | FilePart> })
  | (WithOptions & { readonly role: "assistant"; readonly content: ReadonlyArray<AssistantPart> })
  | (WithOptions & { readonly role: "tool"; readonly content: ReadonlyArray<ToolPart> })

export interface TextPart extends WithOptions {
  readonly type: "text"
  readonly text: string
}

interface ReasoningPart extends WithOptions {
  readonly type: "reasoning"
  readonly text: string
}

/** Version 4 names the type of the data, version 3 leaves it to the value. References and texts are not used here. */
export type FileData =
  | { readonly type: "data"; readonly data: Uint8Array | string }
  | { readonly type: "url"; readonly url: URL }
  | { readonly type: "reference" | "text" }
  | Uint8Array
  | string
  | URL

export interface FilePart extends WithOptions {
  readonly type: "file"
  readonly mediaType: string
  readonly filename?: string | undefined
  readonly data: FileData
}

export interface ToolCallPart extends WithOptions {
  readonly type: "tool-call"
  readonly toolCallId: string
  readonly toolName: string
  readonly input: unknown
  readonly providerExecuted?: boolean | undefined
}

export interface ToolResultPart extends WithOptions {
  readonly type: "tool-result"
  readonly toolCallId: string
  readonly toolName: string
  readonly output: ToolOutput
}

export type ToolOutput =
  | { readonly type: "execution-denied"; readonly reason?: string | undefined }
  | { readonly type: "text" | "error-text"; readonly value: string }
  | { readonly type: "json" | "error-json"; readonly value: Json }
  | { readonly type: "content"; readonly value: ReadonlyArray<ToolOutputPart> }

export type ToolOutputPart =
  | { readonly type: "text"; readonly text: string }
  // Version 4.
  | {
      readonly type: "file"
      readonly mediaType: string
      readonly filename?: string | undefined
      readonly data: FileData
    }
  // Version 3.
  | { readonly type: "image-data"; readonly mediaType: string; readonly data: string }
  | {
      readonly type: "file-data"
      readonly mediaType: string
      readonly filename?: string | undefined
      readonly data: string
    }
  | { readonly type: "image-url" | "file-url"; readonly url: string }
  | { readonly type: "custom" | "file-id" | "image-file-id" }

export interface ApprovalResponsePart extends WithOptions {
  readonly type: "tool-approval-response"
  readonly approvalId: string
  readonly approved: boolean
  readonly reason?: string | undefined
}

/** Parts of an assistant message. Custom parts and reasoning files are not used here. */
export type AssistantPart =
  | TextPart
  | FilePart
  | ReasoningPart
  | ToolCallPart
  | ToolResultPart
  | (WithOptions & { readonly type: "custom" | "reasoning-file" })
export type ToolPart = ToolResultPart | ApprovalResponsePart

interface WithMetadata {
  readonly providerMetadata?: Readonly<Record<string, unknown>> | undefined
}

interface Block extends WithMetadata {
  readonly id: string
}

export interface Usage {
  readonly inputTokens: {
    readonly total: number | undefined
    readonly noCache: number | undefined
    readonly cacheRead: number | undefined
    readonly cacheWrite: number | undefined
  }
  readonly outputTokens: {
    readonly total: number | undefined
    readonly text: number | undefined
    readonly reasoning: number | undefined
  }
  /** The usage as the provider reports it. */
  readonly raw?: ProviderJson | undefined
}

export interface FinishReason {
  /** `interrupted`: the stream ended without a finish. Only version 4 has it. */
  readonly unified: "stop" | "length" | "content-filter" | "tool-calls" | "error" | "interrupted" | "other"
  readonly raw: string | undefined
}

export interface ToolCall extends WithMetadata {
  readonly type: "tool-call"
  readonly toolCallId: string
  readonly toolName: string
  /** The arguments as JSON, or the part of it that arrived. */
  readonly input: string
  readonly providerExecuted?: boolean | undefined
}

interface ToolResult extends WithMetadata {
  readonly type: "tool-result"
  readonly toolCallId: string
  readonly toolName: string
  readonly result: unknown
  readonly isError?: boolean | undefined
  readonly preliminary?: boolean | undefined
}

export interface GeneratedFile extends WithMetadata {
  readonly type: "file"
  readonly mediaType: string
  readonly data: FileData
}

export type Source = WithMetadata & { readonly type: "source"; readonly id: string } & (
    | { readonly sourceType: "url"; readonly url: string; readonly title?: string | undefined }
    | {
        readonly sourceType: "document"
        readonly mediaType: string
        readonly title: string
        readonly filename?: string | undefined
      }
  )

interface ApprovalRequest extends WithMetadata {
  readonly type: "tool-approval-request"
  readonly approvalId: string
  readonly toolCallId: string
}

/** Parts without a counterpart in effect/ai. Only a call of the AI SDK receives them. */
interface Unmapped {
  readonly type: "custom" | "reasoning-file" | "raw" | "ping"
}

interface StreamStart {
  readonly type: "stream-start"
  readonly warnings?: ReadonlyArray<SharedV4Warning> | undefined
}

/** Parts of complete answers and of streams alike. */
export type CommonPart = ToolCall | ToolResult | GeneratedFile | Source | ApprovalRequest | Unmapped

export type Content =
  | CommonPart
  | (WithMetadata & { readonly type: "text" | "reasoning"; readonly text: string })

export interface ResponseMetadata {
  readonly id?: string | undefined
  readonly timestamp?: Date | undefined
  readonly modelId?: string | undefined
}

interface WithHeaders {
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/** The request that the client sent. */
interface Sent {
  readonly url?: string
  readonly body?: unknown
}

export interface GenerateResult extends WithMetadata {
  readonly content: ReadonlyArray<Content>
  /** The answer to a JSON request, if it is only a part of the text. */
  readonly structuredOutputText?: string | undefined
  readonly finishReason: FinishReason
  readonly usage: Usage
  readonly request?: Sent | undefined
  /** `body` is the parsed body of the response. */
  readonly response?: (ResponseMetadata & WithHeaders & { readonly body?: unknown }) | undefined
  readonly warnings?: ReadonlyArray<SharedV4Warning> | undefined
}

export type StreamPart =
  | CommonPart
  | StreamStart
  | (Block & { readonly type: "text-start" | "text-end" | "reasoning-start" | "reasoning-end" })
  | (Block & { readonly type: "text-delta" | "reasoning-delta"; readonly delta: string })
  | (Block & {
      readonly type: "tool-input-start"
      readonly toolName: string
      readonly providerExecuted?: boolean | undefined
    })
  | (Block & { readonly type: "tool-input-delta"; readonly delta: string })
  | (Block & { readonly type: "tool-input-end" })
  | (ResponseMetadata & { readonly type: "response-metadata" })
  | (WithMetadata & { readonly type: "finish"; readonly finishReason: FinishReason; readonly usage: Usage })
  | { readonly type: "error"; readonly error: unknown }

export interface StreamResult {
  readonly stream: ReadableStream<StreamPart>
  readonly request?: Sent | undefined
  readonly response?: WithHeaders | undefined
}

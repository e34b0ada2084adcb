/**
 * The vendors behind the gateway: the model `first` fails, and `second` does a job in two turns. It asks for a command to be
 * run, and then repeats what the command printed.
 */
import { Effect } from "effect"
import type { Scope } from "effect"
import * as RawServer from "../hostile/RawServer.ts"
import { claude } from "../hostile/RawServer.ts"

export const command = "echo outlast-$((40 + 2))"
/** What the command prints. It stands nowhere in the conversation before. */
export const printed = "outlast-42"
export const answer = `The command said ${printed}.`

type Hit = RawServer.RawServer["hits"][number]

export interface Vendor extends RawServer.RawServer {
  readonly of: (model: string) => ReadonlyArray<Hit>
}

export const start = (status: number): Effect.Effect<Vendor, never, Scope.Scope> =>
  Effect.map(
    RawServer.start((response, hit) => {
      const isMessages = hit.url.includes("/messages")
      if (hit.body.model === "first") {
        const error = { type: status === 401 ? "authentication_error" : "overloaded_error", message: "No." }
        return RawServer.json(response, status, { type: "error", error })
      }
      const isLast = JSON.stringify(hit.body).includes(printed)
      RawServer.events(response, isMessages ? messages(hit, isLast) : responses(hit, isLast))
    }),
    (server) => ({ ...server, of: (model) => server.hits.filter(({ body }) => body.model === model) })
  )

const messages = ({ body }: Hit, isLast: boolean): ReadonlyArray<object> => {
  // Requests beside the job, such as one for a title, have no tools.
  const isCall =
    !isLast && body.tools?.some(({ name }: { readonly name: string }) => name === "Bash") === true
  const block = isCall
    ? [
        claude.block(0, { type: "tool_use", id: "toolu_1", name: "Bash", input: {} }),
        {
          type: "content_block_delta",
          index: 0,
          delta: {
            type: "input_json_delta",
            partial_json: JSON.stringify({ command, description: "Prints a number" })
          }
        }
      ]
    : [claude.block(0), claude.text(0, answer)]
  const stop_reason = isCall ? "tool_use" : "end_turn"
  return [
    claude.start,
    ...block,
    claude.stop(0),
    { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 9 } },
    claude.end
  ]
}

/** Names of the tool that runs a command, with its arguments: versions of Codex differ. */
const shells: Readonly<Record<string, object>> = {
  exec_command: { cmd: command },
  shell_command: { command },
  shell: { command: ["bash", "-c", command] }
}

const responses = ({ body }: Hit, isLast: boolean): ReadonlyArray<object> => {
  const names: ReadonlyArray<string> = body.tools?.map(({ name }: { readonly name: string }) => name) ?? []
  const name = names.find((each) => Object.hasOwn(shells, each)) ?? "exec_command"
  const item = isLast
    ? {
        id: "msg_1",
        type: "message",
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", text: answer, annotations: [] }]
      }
    : {
        id: "fc_1",
        type: "function_call",
        call_id: "call_1",
        name,
        arguments: JSON.stringify(shells[name]),
        status: "completed"
      }
  const response = (status: string, more: object = {}) => ({
    id: isLast ? "resp_2" : "resp_1",
    object: "response",
    created_at: 1,
    model: body.model,
    status,
    output: [],
    ...more
  })
  const usage = {
    input_tokens: 9,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 9,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 18
  }
  return [
    { type: "response.created", response: response("in_progress") },
    { type: "response.output_item.added", output_index: 0, item: { ...item, status: "in_progress" } },
    ...(isLast
      ? [
          {
            type: "response.output_text.delta",
            item_id: item.id,
            output_index: 0,
            content_index: 0,
            delta: answer
          }
        ]
      : []),
    { type: "response.output_item.done", output_index: 0, item },
    { type: "response.completed", response: response("completed", { output: [item], usage }) }
  ]
}

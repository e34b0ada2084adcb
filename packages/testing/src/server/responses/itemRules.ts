/**
 * Rules of the Responses API about the items of the input: ids, references to stored items, encrypted reasoning that it
 * did not create, and one output for every call.
 */
import { badName, tooLong, type, wrongPart } from "../openai/problems.ts"
import { firstOf } from "../Rule.ts"
import { unseal } from "../seal.ts"
import type { Item } from "./body.ts"
import type { Problem, ResponsesRule } from "./Input.ts"

const maxIdLength = 64

export const itemRules: ReadonlyArray<ResponsesRule> = [
  {
    name: "id-length",
    check: ({ body }) =>
      firstOf(body.input, ({ item, path }) =>
        firstOf([["id", idOf(item)] as const, ["call_id", callId(item)] as const], ([field, value]) =>
          value !== undefined && value.length > maxIdLength
            ? tooLong(`${path}.${field}`, value, maxIdLength)
            : undefined
        )
      )
  },
  {
    name: "call-name",
    disputed: true,
    check: ({ body }) =>
      firstOf(body.input, ({ item, path }) =>
        item.type === "function_call" ? badName(`${path}.name`, item.name) : undefined
      )
  },
  {
    name: "id-prefix",
    check: ({ body }) =>
      firstOf(body.input, ({ item, path }) => {
        const prefix = prefixes[item.type]
        const id = idOf(item)
        return id === undefined || prefix === undefined || id.startsWith(prefix)
          ? undefined
          : {
              type,
              message: `Invalid '${path}.id': '${id}'. Expected an ID that begins with '${prefix}'.`,
              param: `${path}.id`,
              code: "invalid_value"
            }
      })
  },
  {
    name: "content-parts",
    check: ({ body }) =>
      firstOf(body.input, ({ item, path }) => {
        const content = item.type === "message" ? item.content : ""
        const allowed =
          item.type === "message" && item.role === "assistant"
            ? ["output_text", "refusal"]
            : ["input_text", "input_image", "input_file"]
        return typeof content === "string"
          ? undefined
          : firstOf(content, (part, i) => wrongPart(`${path}.content[${i}]`, part.type, allowed))
      })
  },
  {
    name: "item-unknown",
    check: ({ body }) =>
      firstOf(body.input, ({ item }) => {
        const asked =
          item.type === "item_reference" || (item.type === "reasoning" && !isEncrypted(item))
            ? (item.id ?? "")
            : undefined
        return asked === undefined || body.isKept(asked)
          ? undefined
          : {
              status: 404,
              type,
              message:
                `Item with id '${asked}' not found. Items are not persisted when \`store\` is set to false. Try ` +
                "again with `store` set to true, or remove this item from your input.",
              param: "input"
            }
      })
  },
  {
    name: "encrypted-content",
    check: ({ body, organisation }) =>
      firstOf(body.input, ({ item }) => {
        if (item.type !== "reasoning" || !isEncrypted(item)) return undefined
        const [owner, id] = unseal(item.encrypted_content ?? "") ?? []
        if (owner === undefined) return unverified("could not be decrypted or parsed")
        if (owner !== organisation) return unverified("organization_id did not match the target organization")
        return id === (item.id ?? id) ? undefined : unverified("item_id did not match the target item id")
      })
  },
  {
    name: "reasoning-alone",
    disputed: true,
    check: ({ body: { items } }) =>
      firstOf(items, ({ item }, i) => {
        const next = items[i + 1]?.item
        return item.type !== "reasoning" || (next !== undefined && follows(next))
          ? undefined
          : {
              type,
              message: `Item '${item.id ?? ""}' of type 'reasoning' was provided without its required following item.`,
              param: "input"
            }
      })
  },
  {
    name: "output-orphan",
    check: ({ body: { items } }) =>
      firstOf(items, ({ item }, i) =>
        item.type !== "function_call_output" ||
        items
          .slice(0, i)
          .some(({ item: { type }, item: call }) => type === "function_call" && callId(call) === item.call_id)
          ? undefined
          : {
              type,
              message: `No tool call found for function call output with call_id ${item.call_id}.`,
              param: "input"
            }
      )
  },
  {
    name: "call-answered",
    check: ({ body: { items } }) =>
      firstOf(items, ({ item }, i) =>
        item.type !== "function_call" ||
        items
          .slice(i + 1)
          .some(
            ({ item: { type }, item: output }) =>
              type === "function_call_output" && callId(output) === item.call_id
          )
          ? undefined
          : { type, message: `No tool output found for function call ${item.call_id}.`, param: "input" }
      )
  }
]

const prefixes: Readonly<Partial<Record<Item["type"], string>>> = {
  message: "msg",
  function_call: "fc",
  reasoning: "rs"
}

const idOf = (item: Item): string | undefined => item.id ?? undefined

const callId = (item: Item): string | undefined => ("call_id" in item ? item.call_id : undefined)

const isEncrypted = ({ encrypted_content: sealed }: Extract<Item, { readonly type: "reasoning" }>): boolean =>
  sealed !== undefined && sealed !== null

/** True for an item that can follow reasoning: the next output of the model. */
const follows = (item: Item): boolean =>
  item.type === "reasoning" ||
  item.type === "function_call" ||
  (item.type === "message" && item.role === "assistant")

const unverified = (reason: string): Problem => ({
  type,
  message: `The encrypted content could not be verified. Reason: Encrypted content ${reason}.`,
  code: "invalid_encrypted_content"
})

/** Images and files that a provider rejects, as opposed to requests that are invalid for another reason. */
import { assert, describe, it } from "@effect/vitest"
import { Classifier } from "@outlast/agent"
import { mediaSentences } from "./signals.ts"

const refused: ReadonlyArray<readonly [status: number, message: string, source: string]> = [
  [400, "Could not process image", "anthropics/claude-code#25592"],
  [
    400,
    "messages.11.content.8.image.source.base64.data: Image format image/png not supported",
    "anthropics/claude-code#42399"
  ],
  [
    400,
    "messages.1.content.1.image.source.base64: image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes",
    "Anthropic"
  ],
  [
    400,
    "messages.34.content.1.image.source.base64.data: At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels",
    "Anthropic"
  ],
  [400, "Invalid PNG image", "NousResearch/hermes-agent#69078"],
  [400, "base64 string of provided image cannot be decoded", "NousResearch/hermes-agent#69078"],
  [
    400,
    "Failed to deserialize the JSON body into the target type: messages[13]: unknown variant `image_url`, expected `text` at line 1 column 6290571",
    "yilewang/llm-for-zotero#143"
  ],
  [400, "Model do not support image input. Request id: 0217", "anomalyco/opencode#47994"],
  [404, "No endpoints found that support image input", "OpenRouter"],
  [400, "The PDF specified was not valid.", "Anthropic"],
  [400, "this model does not support image input", "anomalyco/opencode#40632"],
  ...[
    ...mediaSentences,
    "The image was specified using the image/jpeg media type, but the image appears to be a image/png image",
    "messages: too many images and documents: 112 + 0 > 100",
    "messages.0.content.1.pdf.source.base64.data: A maximum of 100 PDF pages may be provided.",
    "The pdf is password protected",
    "Unsupported MIME type: image/svg+xml",
    "输入的图片格式不支持"
  ].map((message) => [400, message, "a provider"] as const)
]

const others: ReadonlyArray<readonly [status: number, message: string]> = [
  [400, "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"],
  [400, "Your image was rejected by the safety system: it cannot be processed under our policy"],
  [400, "messages.2.content: Input should be a valid string"],
  [429, "Too many images: rate limit of 10 images per minute exceeded"],
  [500, "Failed to process image"],
  [400, "This model does not support tools"],
  [400, "This endpoint's maximum context length is 8192 tokens. The image input is too large: 9000 tokens"],
  [400, "Invalid value: 'image'. Supported values are: 'text', 'json_object'"]
]

const reasonOf = (statusCode: number, message: string) => {
  const body = JSON.stringify({ error: { message } })
  const error = Object.assign(new Error(message), {
    name: "AI_APICallError",
    statusCode,
    responseBody: body,
    responseHeaders: {}
  })
  return Classifier.failureOf(error).reason
}

const isMediaRefused = (status: number, message: string): boolean => {
  const reason = reasonOf(status, message)
  return reason._tag === "Format" && reason.media === true
}

const thoughts: ReadonlyArray<readonly [status: number, message: string]> = [
  [400, "The encrypted content gAAA...DQ== could not be verified."],
  [400, "Item 'rs_1' of type 'reasoning' was provided without its required following item."],
  [400, "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'."],
  [404, "Item with id 'msg_1' not found. Items are not persisted when `store` is set to false."],
  [400, "Invalid 'input[3].id': 'toolu_x'. Expected an ID that begins with 'fc'."],
  [400, "messages.1.content.0: Invalid `signature` in `thinking` block"],
  [400, "messages.1.content.0.thinking.signature: Field required"],
  [400, "Corrupted thought signature."],
  [422, "property 'messages.1.reasoning_content' is unsupported"]
]

describe("refused thinking", () => {
  for (const [status, message] of thoughts) {
    it(`is recognised in: ${message.slice(0, 70)}`, () => {
      assert.deepInclude(reasonOf(status, message), { _tag: "Format", side: "request", thinking: true })
    })
  }

  for (const [status, message] of [
    [500, "Failed to decrypt reasoning"],
    [400, "messages.2.content: Input should be a valid string"]
  ] as const) {
    it(`is not seen in: ${status} ${message}`, () => {
      assert.notProperty(reasonOf(status, message), "thinking")
    })
  }
})

describe("a body of too many bytes", () => {
  it("may be small enough without its images", () => {
    assert.deepInclude(reasonOf(413, "Request exceeds the maximum size"), {
      _tag: "ContextOverflow",
      media: true
    })
    assert.notProperty(reasonOf(400, "prompt is too long: 208310 tokens > 200000 maximum"), "media")
  })
})

describe("a rejected image or file", () => {
  for (const [status, message, source] of refused) {
    it(`is recognised in: ${message.slice(0, 70)} (${source})`, () => {
      assert.isTrue(isMediaRefused(status, message))
    })
  }
  for (const [status, message] of others) {
    it(`is not seen in: ${status} ${message.slice(0, 70)}`, () => {
      assert.isFalse(isMediaRefused(status, message))
    })
  }
})

/**
 * Rules on images and files that a provider rejects: they are unreadable, too large or too many, or the model does
 * not accept any. The request would be valid without them.
 */
import type { ErrorFacts } from "../facts/ErrorFacts.ts"
import { Format } from "../reasons/FailoverReason.ts"
import * as Rule from "./Rule.ts"

const refusedMedia = new Format({ side: "request", media: true })

const isRequest = ({ said, status }: ErrorFacts): boolean => {
  const decisive = said ?? status
  return decisive === undefined || [400, 404, 413, 415, 422].includes(decisive)
}

const what =
  "(image|images|image_url|png|jpeg|jpg|webp|gif|picture|pdf|document|audio|video|media|multimodal|file input)"

export const media: ReadonlyArray<Rule.Rule> = [
  Rule.code({
    id: "format/media-code",
    why: "OpenAI's codes for images that cannot be loaded or read.",
    codes: [
      "invalid_image",
      "invalid_image_format",
      "invalid_image_url",
      "invalid_base64_image",
      "image_parse_error",
      "image_too_large",
      "image_too_small",
      "image_file_too_large",
      "unsupported_image_media_type",
      "empty_image_file",
      "failed_to_download_image",
      "image_file_not_found"
    ],
    when: isRequest,
    reason: refusedMedia
  }),
  Rule.text({
    id: "format/media",
    why: "The error calls an image or a file of the request unreadable, too large, too many or unsupported.",
    phrases: [
      `(could not|couldn't|cannot|can't|unable to|failed to|error) (process|processing|decode|decoding|download|downloading|fetch|fetching|load|loading|read|reading|open|identify|parse) (the |this |input |provided |)${what}`,
      `(invalid|corrupt|corrupted|unsupported|malformed|bad|unprocessable|too many) (base64 |base64-encoded |input |inline |)${what}`,
      `(does not|doesn't|do not|don't|not|cannot) (support|accept|handle|process|have|take) (any |the |)(input |inline |)${what}`,
      `${what} (input|inputs|content|part|parts|url|urls|understanding|format|type|data|messages|modality) (is|are) (not|only|un)…support*`,
      `${what} (is|are) not (supported|allowed|accepted|a valid|valid|available)`,
      `${what} (size|dimensions|dimension|data|file|pixels|)…(exceeds|exceed|too large|too small|larger than|maximum|too big)`,
      `${what} (exceeds|exceed|is too large|is too small|is larger|is too big)`,
      "support (image|images|vision|audio|video|pdf|file|multimodal) (input|inputs)",
      "unknown variant…(image_url|image|input_image|file|input_audio|video_url)…expected…text",
      "(image|pdf|document|audio|file) (format|type|mime type|media type)…not…(supported|allowed|valid)",
      "base64 string of provided image",
      "media_type…(image|document)…(does not|do not|doesn't) match",
      "the (pdf|image|file) (specified|provided|you provided|uploaded)…(not valid|invalid|is empty|password|encrypted|corrupt*)"
    ],
    unless: [
      "(safety|policy|policies|moderation|content filter|generate|generation|generated)",
      "(context length|context window|tokens)"
    ],
    when: isRequest,
    reason: refusedMedia
  })
]

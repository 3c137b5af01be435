"""What TensorBoard shows beyond scalars, as summaries for an event file; made without torch, which a report does not need."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def text_summary(tag: str, text: str) -> Any:
    """A text in Markdown."""
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

    plugin_data = SummaryMetadata.PluginData(plugin_name="text", content=TextPluginData(version=0).SerializeToString())
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
    tensor = TensorProto(dtype="DT_STRING", string_val=[text.encode()], tensor_shape=shape)
    metadata = SummaryMetadata(plugin_data=plugin_data)
    return Summary(value=[Summary.Value(tag=f"{tag}/text_summary", metadata=metadata, tensor=tensor)])


def figure_summary(tag: str, figure: Figure) -> Any:
    """A figure as a picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image
    from tensorboard.compat.proto.summary_pb2 import Summary

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    width, height = canvas.get_width_height()
    picture = io.BytesIO()
    Image.frombuffer("RGBA", (width, height), canvas.buffer_rgba()).convert("RGB").save(picture, format="PNG")
    image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=picture.getvalue())
    return Summary(value=[Summary.Value(tag=tag, image=image)])


def row_summaries(
    values: Mapping[str, float | int | str | bool], results: Sequence[str], first: Sequence[str] = ()
) -> list[Any]:
    """What begins a row of the HParams tab: hyper-parameters, those of `first` before the others, and tags of results."""
    from tensorboard.plugins.hparams import api_pb2 as api, metadata
    from tensorboard.plugins.hparams.plugin_data_pb2 import SessionStartInfo

    start, columns = SessionStartInfo(), []
    for name, value in values.items():
        is_text = isinstance(value, str)
        setattr(start.hparams[name], "string_value" if is_text else "number_value", value)
        kind = api.DATA_TYPE_STRING if is_text else api.DATA_TYPE_FLOAT64
        # TensorBoard sorts columns by whether they differ, then by name, and shows the first five.
        columns.append(api.HParamInfo(name=name, type=kind, differs=name in first))
    metrics = [api.MetricInfo(name=api.MetricName(tag=tag)) for tag in results]
    experiment = api.Experiment(hparam_infos=columns, metric_infos=metrics)
    return [
        _of_hparams(metadata.EXPERIMENT_TAG, experiment=experiment),
        _of_hparams(metadata.SESSION_START_INFO_TAG, session_start_info=start),
    ]


def row_end() -> Any:
    """What ends a row of the HParams tab: the run is over."""
    from tensorboard.plugins.hparams import api_pb2 as api, metadata
    from tensorboard.plugins.hparams.plugin_data_pb2 import SessionEndInfo

    return _of_hparams(metadata.SESSION_END_INFO_TAG, session_end_info=SessionEndInfo(status=api.STATUS_SUCCESS))


def _of_hparams(tag: str, **content: Any) -> Any:
    """A summary for the HParams tab."""
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.plugins.hparams import metadata
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    data = HParamsPluginData(version=metadata.PLUGIN_DATA_VERSION, **content)
    plugin_data = SummaryMetadata.PluginData(plugin_name=metadata.PLUGIN_NAME, content=data.SerializeToString())
    return Summary(value=[Summary.Value(tag=tag, metadata=SummaryMetadata(plugin_data=plugin_data))])

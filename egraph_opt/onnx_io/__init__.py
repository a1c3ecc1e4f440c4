"""ONNX in and out: files to models, models to tensor graphs, and back with the interface intact."""

from egraph_opt.onnx_io.annotations import annotated
from egraph_opt.onnx_io.exporter import OpsetError, export_graph, export_model, needed_opset
from egraph_opt.onnx_io.importer import Imported, import_model
from egraph_opt.onnx_io.load import external_files, load_model, to_ir
from egraph_opt.onnx_io.save import copy_model, save_model, weight_bytes

__all__ = [
    "Imported",
    "OpsetError",
    "annotated",
    "copy_model",
    "export_graph",
    "export_model",
    "external_files",
    "import_model",
    "load_model",
    "needed_opset",
    "save_model",
    "to_ir",
    "weight_bytes",
]
